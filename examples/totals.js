// The body of an async function: `input` is in scope, `return` gives the result.
const totals = {};
for (const { country, total } of input.orders) {
  totals[country] = (totals[country] ?? 0) + total;
}
console.log(`${input.orders.length} orders in ${Object.keys(totals).length} countries`);
return totals;
