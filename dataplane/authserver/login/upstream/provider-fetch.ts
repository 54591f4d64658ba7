import { resolve } from 'node:path'
import type * as client from 'openid-client'
import { isLoopback } from '../../../config/check/url.ts'
import { createGuardedFetch, type GuardedFetch } from '../../../net/guarded-fetch.ts'

/** How a provider is reached. */
export interface Reach {
  readonly caBundleFile?: string
  readonly allowPrivateIPs?: boolean
}

/** A fetch whose requests go through the address check; loopback is reached where `url` itself is there. */
export const providerFetch = (url: string, { caBundleFile, allowPrivateIPs }: Reach, directory: string): GuardedFetch =>
  createGuardedFetch({
    caBundleFile: caBundleFile === undefined ? undefined : resolve(directory, caBundleFile),
    allowPrivateIP: allowPrivateIPs,
    allowLoopback: isLoopback(new URL(url)),
  })

/** The guarded fetch in the form that openid-client calls. */
export function webFetch(guarded: GuardedFetch): client.CustomFetch {
  return async (url, { method, headers, body }) => {
    if (method !== 'GET' && method !== 'POST') throw new Error('a request of another method')
    const text = body === undefined || body === null ? undefined : body.toString()
    const answer = await guarded(url, headers, method === 'POST' ? (text ?? '') : undefined)
    const contentType = answer.headers['content-type']
    return new Response(answer.status === 204 ? null : answer.text, {
      status: answer.status,
      headers: typeof contentType === 'string' ? { 'content-type': contentType } : {},
    })
  }
}

/** An error without what the provider has said: its texts, and answers that the library attaches, may hold anything. */
export function scrubbed(error: unknown): Error {
  if (error instanceof UnusableAnswer) return error
  const { name, code, cause } = error as { name?: string; code?: string; cause?: { code?: unknown } }
  const reason = typeof cause?.code === 'string' && /^[\w-]{1,40}$/.test(cause.code) ? ` (${cause.code})` : ''
  return new Error(`the provider’s answer won’t do: ${code ?? name ?? 'error'}${reason}`)
}

/** What is wrong with a provider's answer, in words of ours. */
export class UnusableAnswer extends Error {
  override readonly name = 'UnusableAnswer'
}
