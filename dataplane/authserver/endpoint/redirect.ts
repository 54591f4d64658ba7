/** What goes with every step of a login: no cache keeps it, and where it comes from is nobody's affair. */
export const PRIVATE = { 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' } as const

/** Sends the browser on. */
export const redirect = (location: string): Response =>
  new Response(null, { status: 303, headers: { location, ...PRIVATE } })
