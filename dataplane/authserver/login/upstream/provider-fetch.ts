import { resolve } from 'node:path'
import type * as client from 'openid-client'
import { isObject } from '../../../../crds/settings/json.ts'
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
export function webFetch(guarded: GuardedFetch) {
  return async (
    ...[url, { method, headers: request, body }]: Parameters<client.CustomFetch>
  ): Promise<ProviderResponse> => {
    if (method !== 'GET' && method !== 'POST') throw new Error('a request of another method')
    const text = body === undefined || body === null ? undefined : body.toString()
    const answer = await guarded(url, request, method === 'POST' ? (text ?? '') : undefined)
    const contentType = answer.headers['content-type']
    const headers = { 'content-type': typeof contentType === 'string' ? contentType : '' }
    return new ProviderResponse(answer.text, answer.status, headers, { secrets: secretsIn(text, request) })
  }
}

/** Parameters of a token request that are secrets. */
const SECRETS = ['code', 'code_verifier', 'client_secret', 'refresh_token']

/** What a request has sent that no text about its answer may repeat. */
function secretsIn(form: string | undefined, headers: Readonly<Record<string, string>>): readonly string[] {
  const fields = new URLSearchParams(form)
  const found = SECRETS.flatMap((name) => fields.getAll(name))
  const basic = /^Basic (.+)$/i.exec(headers['authorization'] ?? '')?.[1]
  if (basic === undefined) return found
  const [, secret = ''] = Buffer.from(basic, 'base64').toString('utf8').split(':', 2)
  return [...found, basic, secret, ...new URLSearchParams(`s=${secret}`).getAll('s')]
}

/** How a provider has answered, where that is not what the library is to read. */
interface Answered {
  readonly secrets: readonly string[]
  readonly status?: number
  readonly document?: unknown
}

/**
 * An answer for the library, which remembers what the provider has answered: the library's errors name the response alone,
 * and an answer may be brought into another form first.
 */
export class ProviderResponse extends Response {
  /** Status of the provider's answer. */
  readonly answered: number
  /** What was sent, and must not be told. */
  readonly secrets: readonly string[]
  readonly #text: string
  #document: unknown

  constructor(text: string, status: number, headers: Record<string, string>, from: Answered) {
    super(isEmpty(status) ? null : text, { status, headers })
    this.#text = text
    this.answered = from.status ?? status
    this.secrets = from.secrets
    this.#document = from.document
  }

  /** What the provider has answered; undefined where that is no JSON. */
  get document(): unknown {
    if (this.#document === undefined)
      try {
        this.#document = JSON.parse(this.#text)
      } catch {
        // An answer that is none is told of by whoever reads it.
      }
    return this.#document
  }
}

const isEmpty = (status: number): boolean => status === 204 || status === 205 || status === 304

/** What is wrong with a provider's answer, in words of ours. */
export class UnusableAnswer extends Error {
  override readonly name = 'UnusableAnswer'
}

/** The JSON object that a text is. Throws an UnusableAnswer with this message where it is none. */
export function objectIn(text: string, message: string): Readonly<Record<string, unknown>> {
  let document: unknown
  try {
    document = JSON.parse(text)
  } catch {
    // Told below, as of any other text that is no object.
  }
  if (!isObject(document)) throw new UnusableAnswer(message)
  return document
}
