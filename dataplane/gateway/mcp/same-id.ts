/**
 * Whether an id that has come back (JSON text) is the one that was sent: `1`, `1.0` and `"1"`, `"a"` and `"\u0061"`. A text
 * that was sent never comes back as a number.
 */
export function sameId(a: string | undefined, b: string): boolean {
  if (a === b) return true
  try {
    if (a === undefined) return false
    const back: unknown = JSON.parse(a)
    const sent: unknown = JSON.parse(b)
    return back === sent || (typeof sent === 'number' && back === String(sent))
  } catch {
    return false
  }
}
