const PATHS = {
  play: 'M5 3.5v9l7.5-4.5z',
  chain: 'M3 3.5v9L8.5 8zM8.5 3.5v9L14 8z',
  stop: 'M4 4h8v8H4z',
  bolt: 'M9 1.5 3.5 9H8l-1 5.5L12.5 7H8z',
  flag: 'M4 14V2.5h8L10 5.5l2 3H4',
  code: 'M6 4 2 8l4 4M10 4l4 4-4 4',
  shield: 'M8 1.5 13 3.5v4c0 3.5-2.2 5.8-5 7-2.8-1.2-5-3.5-5-7v-4z',
  copy: 'M6 6h7v7H6zM3 10V3h7',
} as const;

const SOLID = ['play', 'chain', 'stop'];

export function Icon({ name }: { name: keyof typeof PATHS }) {
  return (
    <svg className={`icon ${SOLID.includes(name) ? 'solid' : ''}`} viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
