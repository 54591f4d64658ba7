/** Endpoints that clients call, with JSON answers. None of them looks at a cookie, so pages of every origin may call them. */
export const FOR_CLIENTS = ['/oauth/token', '/oauth/register', '/oauth/revoke', '/oauth/introspect'] as const

const DOCUMENTS = '/.well-known/'

/** What is asked for below the issuer's path or, where a proxy has taken that off, bare. */
export const belowIssuer = (path: string, issuerPath: string): string =>
  path.startsWith(`${issuerPath}/`) ? path.slice(issuerPath.length) : path

/** Whether clients call or read what is at a path, bare or below the issuer's. */
export function isForClients(path: string, issuer: string): boolean {
  // The issuer is looked at for such paths alone.
  if (!path.includes('/oauth/') && !path.includes(DOCUMENTS)) return false
  const own = belowIssuer(path, new URL(issuer).pathname.replace(/\/$/, ''))
  return own.startsWith(DOCUMENTS) || (FOR_CLIENTS as readonly string[]).includes(own)
}
