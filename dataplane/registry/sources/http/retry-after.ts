/** Milliseconds that a Retry-After header asks to wait: seconds or a date (RFC 9110 section 10.2.3). */
export function retryAfterOf(header: string | string[] | undefined, now: number): number | undefined {
  if (typeof header !== 'string') return undefined
  if (/^\d+$/.test(header)) return Number(header) * 1000
  const date = /^[A-Z][a-z]{2}/.test(header) ? Date.parse(header) : Number.NaN
  return Number.isNaN(date) ? undefined : Math.max(0, date - now)
}
