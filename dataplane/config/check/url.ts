import type { Finding } from '../load.ts'

/** What is wrong with a URL that our side will call or publish. `pointer` is where it stands. */
export function urlFindings(text: string, pointer: string): readonly Finding[] {
  const url = URL.parse(text)
  if (url === null) return [{ pointer, message: 'is not a URL' }]
  return [
    ...(url.username !== '' || url.password !== '' ? [{ pointer, message: 'must hold no credentials' }] : []),
    ...(url.hash === '' && !text.includes('#') ? [] : [{ pointer, message: 'must have no fragment' }]),
  ]
}

/** Whether a URL leads to this machine alone: `localhost`, 127.0.0.0/8, ::1. */
export function isLoopback(url: URL): boolean {
  return (
    url.hostname === 'localhost' ||
    url.hostname.endsWith('.localhost') ||
    url.hostname === '[::1]' ||
    /^127(\.[0-9]+){3}$/.test(url.hostname)
  )
}
