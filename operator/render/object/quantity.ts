/**
 * Kubernetes quantities in the form in which the API server gives them back, so that what is rendered equals what is
 * stored (k8s.io/apimachinery/pkg/api/resource: no fraction, the largest suffix that leaves a whole number).
 */
const BINARY = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei']
const DECIMAL = ['n', 'u', 'm', '', 'k', 'M', 'G', 'T', 'P', 'E']
const SYNTAX = /^([+-]?)([0-9]+)?(?:\.([0-9]*))?(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]+))?$/

const NANOS = 1_000_000_000n

/** Whole nanos of a decimal number times a factor, rounded up as Kubernetes does. */
function nanos(whole: string, fraction: string, factor: bigint, divisor: bigint): bigint {
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

/** The canonical form of a quantity such as `1000m`, `0.5` or `1024Mi`; undefined where the text isn't one. */
export function canonicalQuantity(text: string): string | undefined {
  const match = SYNTAX.exec(text)
  if (!match || (match[2] === undefined && !match[3])) return undefined
  const [, sign, whole = '0', fraction = '', suffix = '', exponent] = match
  const binary = suffix.endsWith('i')
  const power = exponent === undefined ? 0 : Number(exponent)
  if (Math.abs(power) > 18) return undefined
  let factor = 1n
  let divisor = 1n
  if (binary) factor = 1024n ** BigInt(BINARY.indexOf(suffix))
  else if (exponent !== undefined)
    [factor, divisor] = power < 0 ? [1n, 10n ** BigInt(-power)] : [10n ** BigInt(power), 1n]
  else {
    const steps = DECIMAL.indexOf(suffix) - 3
    ;[factor, divisor] = steps < 0 ? [1n, 1000n ** BigInt(-steps)] : [1000n ** BigInt(steps), 1n]
  }
  const value = nanos(whole, fraction, factor, divisor)
  const minus = sign === '-' && value !== 0n ? '-' : ''
  if (value === 0n) return '0'
  if (binary && value % NANOS === 0n && value / NANOS >= 1024n) return minus + largest(value / NANOS, 1024n, BINARY)
  if (exponent !== undefined) return minus + exponential(value)
  return minus + largest(value, 1000n, DECIMAL)
}

/** Decimal exponent form: the exponent is a multiple of three. */
function exponential(value: bigint): string {
  let rest = value
  let power = -9
  while (rest % 1000n === 0n) {
    rest /= 1000n
    power += 3
  }
  return power === 0 ? `${rest}` : `${rest}e${power}`
}
