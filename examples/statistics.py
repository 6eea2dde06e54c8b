# A module: `input` is in scope; main(input) gives the result.
import statistics


def main(input):
    totals = [order["total"] for order in input["orders"]]
    print("median of", len(totals), "orders:", statistics.median(totals))
    return {"mean": round(statistics.mean(totals), 2), "largest": max(totals)}
