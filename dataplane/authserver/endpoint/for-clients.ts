/** Endpoints that clients call, with JSON answers. They read no cookies, so pages of every origin may call them. */
export const FOR_CLIENTS = ['/oauth/token', '/oauth/register', '/oauth/revoke', '/oauth/introspect'] as const

const DOCUMENTS = '/.well-known/'

/** Returns the path below the issuer's path. A proxy may already have removed the issuer's path. */
export const belowIssuer = (path: string, issuerPath: string): string =>
  path.startsWith(`${issuerPath}/`) ? path.slice(issuerPath.length) : path

/** Tells whether a path, bare or below the issuer's, is an endpoint or document for clients. */
export function isForClients(path: string, issuer: string): boolean {
  // Most paths are neither. This check finds them without parsing the issuer.
  if (!path.includes('/oauth/') && !path.includes(DOCUMENTS)) return false
  const own = belowIssuer(path, new URL(issuer).pathname.replace(/\/$/, ''))
  return own.startsWith(DOCUMENTS) || (FOR_CLIENTS as readonly string[]).includes(own)
}
