/**
 * Kubernetes quantities in the form that the API server returns (k8s.io/apimachinery/pkg/api/resource: no fraction, the
 * largest suffix that leaves a whole number), so that rendered equals stored.
 */
const BINARY = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei']
const DECIMAL = ['n', 'u', 'm', '', 'k', 'M', 'G', 'T', 'P', 'E']
const SYNTAX = /^([+-]?)([0-9]+)?(?:\.([0-9]*))?(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]+))?$/

const NANOS = 1_000_000_000n

const LARGEST_EXPONENT = 18

interface Scale {
  readonly factor: bigint
  readonly divisor: bigint
}

const computePower = (base: bigint, power: number): Scale =>
  power < 0 ? { factor: 1n, divisor: base ** BigInt(-power) } : { factor: base ** BigInt(power), divisor: 1n }

function parseScale(suffix: string, exponent: string | undefined): Scale {
  if (suffix.endsWith('i')) return computePower(1024n, BINARY.indexOf(suffix))
  if (exponent !== undefined) return computePower(10n, Number(exponent))
  return computePower(1000n, DECIMAL.indexOf(suffix) - DECIMAL.indexOf(''))
}

/** Returns the whole nanos of a scaled decimal number, rounded up like Kubernetes. */
function nanos(whole: string, fraction: string, { factor, divisor }: Scale): bigint {
  const scaled = BigInt(whole + fraction) * factor * NANOS
  const by = 10n ** BigInt(fraction.length) * divisor
  return (scaled + by - 1n) / by
}

function largest(value: bigint, base: bigint, suffixes: readonly string[]): string {
  let step = 0
  let rest = value
  while (step < suffixes.length - 1 && rest !== 0n && rest % base === 0n) {
    rest /= base
    step += 1
  }
  return `${rest}${suffixes[step]}`
}

/** Returns the canonical form of a quantity such as `1000m`, `0.5` or `1024Mi`; undefined for any other text. */
export function canonicalQuantity(text: string): string | undefined {
  const match = SYNTAX.exec(text)
  if (!match || (match[2] === undefined && !match[3])) return undefined
  const [, sign, whole = '0', fraction = '', suffix = '', exponent] = match
  if (Math.abs(Number(exponent ?? 0)) > LARGEST_EXPONENT) return undefined
  const binary = suffix.endsWith('i')
  const value = nanos(whole, fraction, parseScale(suffix, exponent))
  const minus = sign === '-' && value !== 0n ? '-' : ''
  if (value === 0n) return '0'
  if (binary && value % NANOS === 0n && value / NANOS >= 1024n) return minus + largest(value / NANOS, 1024n, BINARY)
  if (exponent !== undefined) return minus + exponential(value)
  return minus + largest(value, 1000n, DECIMAL)
}

function exponential(value: bigint): string {
  let rest = value
  let power = -9
  while (rest % 1000n === 0n) {
    rest /= 1000n
    power += 3
  }
  return power === 0 ? `${rest}` : `${rest}e${power}`
}
