/**
 * The header (a flat list) that asks for no compression: answers of backends are small, and mostly relayed at once. One
 * that is compressed all the same is decoded.
 */
export const IDENTITY: readonly string[] = ['accept-encoding', 'identity']

/** Whether a Content-Type begins with a media type, given in lower case; its own case doesn't matter (RFC 9110, 8.3.1). */
export function isOfType(contentType: string | string[] | undefined, type: string): boolean {
  if (typeof contentType !== 'string') return false
  return contentType.startsWith(type) || contentType.slice(0, type.length).toLowerCase() === type
}
