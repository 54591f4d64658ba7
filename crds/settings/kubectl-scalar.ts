const NULL = /^(?:|~|null|Null|NULL)$/
const TRUE = /^(?:y|Y|yes|Yes|YES|true|True|TRUE|on|On|ON)$/
const FALSE = /^(?:n|N|no|No|NO|false|False|FALSE|off|Off|OFF)$/
const INFINITE = /^[-+]?\.(?:inf|Inf|INF)$/
const NOT_A_NUMBER = /^\.(?:nan|NaN|NAN)$/
const FRACTION = /^\.\d+(?:_\d+)*(?:[eE][-+]?\d+(?:_\d+)*)?$/
const FLOAT = /^[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?$/
const PREFIXED = /^([-+]?)0([xX][\da-fA-F]+|[bB][01]+|[oO]?[0-7]+)$/
/** The largest integer that Go parses as an integer. A larger decimal becomes a float, any other larger number text. */
const LARGEST = 2n ** 64n - 1n
const SMALLEST = -(2n ** 63n)

/**
 * Interprets an unquoted scalar like kubectl and the API server (sigs.k8s.io/yaml, go-yaml 2, `resolve.go`): YAML 1.1
 * with Go's numbers. `no` is false and `010` is 8, but `e2`, `12:30` and timestamps are text.
 */
export function kubectlScalar(text: string): null | boolean | number | string {
  if (NULL.test(text)) return null
  if (TRUE.test(text)) return true
  if (FALSE.test(text)) return false
  if (INFINITE.test(text)) return text.startsWith('-') ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY
  if (NOT_A_NUMBER.test(text)) return Number.NaN
  if (text.startsWith('.')) return FRACTION.test(text) ? float(text.replaceAll('_', ''), text) : text
  return /^[-+\d]/.test(text) ? number(text) : text
}

function number(text: string): number | string {
  const plain = text.replaceAll('_', '')
  const [, sign, digits] = PREFIXED.exec(plain) ?? []
  if (digits !== undefined) {
    const value = BigInt(/^\d/.test(digits) ? `0o${digits}` : `0${digits.toLowerCase()}`)
    const signed = sign === '-' ? -value : value
    // Go accepts no sign before a number beyond its signed integers.
    const largest = sign === '' ? LARGEST : -SMALLEST - 1n
    if (signed >= SMALLEST && signed <= largest) return Number(signed)
  }
  return FLOAT.test(plain) ? float(plain, text) : text
}

/** Parses a float. Returns the text if the number is too large for Go. */
function float(plain: string, text: string): number | string {
  const value = Number(plain)
  return Number.isFinite(value) ? value : text
}
