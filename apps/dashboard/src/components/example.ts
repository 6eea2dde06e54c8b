// The workflow that a new visitor finds.
import type { Workflow } from '@/lib/workflows/types';

const PRICE = `// input is what the node before gave; what is returned goes on.
const lines = input.items.map(({ sku, quantity, price }) => ({
  sku,
  total: quantity * price,
}));
const subtotal = lines.reduce((sum, line) => sum + line.total, 0);

console.log(\`order \${input.order}: \${lines.length} lines\`);
if (subtotal > 500) console.warn('large order, ask for a second look');

return { order: input.order, country: input.country, lines, subtotal };
`;

const TAX = `from decimal import Decimal, ROUND_HALF_UP

RATES = {"DE": Decimal("0.19"), "FR": Decimal("0.20")}


def main(input):
    rate = RATES[input["country"]]
    net = Decimal(str(input["subtotal"]))
    tax = (net * rate).quantize(Decimal("0.01"), ROUND_HALF_UP)
    print(f"tax {rate:.0%} on {net}: {tax}")
    return {**input, "tax": tax, "total": net + tax}
`;

export const EXAMPLE: Workflow = {
  id: 'order',
  name: 'Order totals',
  nodes: [
    {
      id: 'trigger',
      kind: 'trigger',
      name: 'Order placed',
      payload: {
        order: 'A-1042',
        country: 'DE',
        items: [
          { sku: 'lamp', quantity: 2, price: 49.5 },
          { sku: 'desk', quantity: 1, price: 420 },
          { sku: 'cable', quantity: 6, price: 4.25 },
        ],
      },
    },
    {
      id: 'price',
      kind: 'code',
      name: 'Price lines',
      language: 'javascript',
      code: PRICE,
      timeoutMs: 5000,
      memoryMb: 128,
    },
    { id: 'tax', kind: 'code', name: 'Add tax', language: 'python', code: TAX, timeoutMs: 5000, memoryMb: 128 },
    { id: 'output', kind: 'output', name: 'Invoice' },
  ],
};
