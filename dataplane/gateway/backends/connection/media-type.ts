/** Whether a Content-Type begins with a media type, given in lower case; its own case doesn't matter (RFC 9110, 8.3.1). */
export function isOfType(contentType: string | string[] | undefined, type: string): boolean {
  if (typeof contentType !== 'string') return false
  return contentType.startsWith(type) || contentType.slice(0, type.length).toLowerCase() === type
}
