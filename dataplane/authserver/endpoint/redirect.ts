/** What goes with every step of a login: no cache keeps it, and where it comes from is nobody's affair. */
export const PRIVATE = { 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' } as const

/** Sends the browser on. */
export const redirect = (location: string): Response =>
  new Response(null, { status: 303, headers: { location, ...PRIVATE } })

/** A response with that. */
export function privately(response: Response): Response {
  for (const [name, value] of Object.entries(PRIVATE)) response.headers.set(name, value)
  return response
}
