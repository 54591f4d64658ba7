import type { CustomFetch } from 'openid-client'
import { createGuardedFetch } from '../../dataplane/net/guarded-fetch.ts'

/** Creates the fetch that openid-client uses for a provider. It limits size and time, and refuses redirects. */
export function oauthFetch(options: Parameters<typeof createGuardedFetch>[0]): CustomFetch {
  const ask = createGuardedFetch(options)
  return async (url, { method, headers, body }) => {
    const answer = await ask(url, headers, method === 'POST' ? String(body ?? '') : undefined)
    const contentType = String(answer.headers['content-type'] ?? '')
    return new Response(answer.text === '' ? null : answer.text, {
      status: answer.status,
      headers: { 'content-type': contentType },
    })
  }
}
