// The same words for the same amounts as the Go side (units.go).

const TIME = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];

export function digits(v) {
  const a = Math.abs(v);
  if (!Number.isFinite(v) || a === 0) return "0";
  let decimals = 0;
  if (a < 0.9995) decimals = Math.min(9, 1 - Math.floor(Math.log10(a)));
  else if (a < 9.995) decimals = 2;
  else if (a < 99.95) decimals = 1;
  return (v < 0 ? "\u2212" : "") + a.toFixed(decimals);
}

function duration(ns) {
  const [name, size] = TIME.find(([, s]) => Math.abs(ns) >= s * 0.9995) || TIME[3];
  return `${digits(ns / size)} ${name}`;
}

// amount prints a value of a flame graph in its unit: "ns", "ns/op", or other.
export function amount(v, unit) {
  if (unit === "ns") return duration(v);
  if (unit.startsWith("ns/")) return duration(v) + unit.slice(2);
  return `${digits(v)} ${unit}`;
}

export function percent(share) {
  const p = share * 100;
  if (p === 0) return "0 %";
  if (p < 0.05) return "<0.1 %";
  return `${p >= 9.95 ? p.toFixed(0) : p.toFixed(1)} %`;
}
