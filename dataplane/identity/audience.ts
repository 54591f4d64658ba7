/** Whether this claim, a text or a list of texts, names one of the audiences. */
export function isFor(claims: Readonly<Record<string, unknown>>, claim: string, audience: string | string[]): boolean {
  const named = Object.hasOwn(claims, claim) ? [claims[claim]].flat() : []
  return [audience].flat().some((one) => named.includes(one))
}
