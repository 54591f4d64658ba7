/** Returns the base URL of the OTLP endpoint without a slash at its end; undefined if the text is no HTTP URL. */
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
