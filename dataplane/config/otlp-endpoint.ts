/** The base URL that is sent to, without a slash at its end; undefined where the text is no URL of HTTP. */
export function otlpEndpoint({
  endpoint = '',
  insecure,
}: {
  readonly endpoint?: string
  readonly insecure?: boolean
}): URL | undefined {
  const text = endpoint.includes('://') ? endpoint : `${insecure === true ? 'http' : 'https'}://${endpoint}`
  const url = URL.parse(text)
  return url !== null && /^https?:$/.test(url.protocol) ? url : undefined
}
