/** Endpoints that clients call, with JSON answers. None of them looks at a cookie, so pages of every origin may call them. */
export const FOR_CLIENTS = ['/oauth/token', '/oauth/register', '/oauth/revoke', '/oauth/introspect'] as const

const DOCUMENTS = '/.well-known/'

/** Whether clients call or read what is at a path, bare or below the issuer's. */
export function isForClients(path: string, issuer: string): boolean {
  const below = new URL(issuer).pathname.replace(/\/$/, '')
  const own = below !== '' && path.startsWith(`${below}/`) ? path.slice(below.length) : path
  return own.startsWith(DOCUMENTS) || (FOR_CLIENTS as readonly string[]).includes(own)
}
