import { resolve } from 'node:path'
import type * as client from 'openid-client'
import { isObject } from '../../../../crds/settings/json.ts'
import { isLoopback } from '../../../config/check/url.ts'
import { parseDocument } from '../../../identity/index.ts'
import { createGuardedFetch, type GuardedFetch } from '../../../net/guarded-fetch.ts'

export interface Reach {
  readonly caBundleFile?: string
  readonly allowPrivateIPs?: boolean
}

/** Creates a fetch whose requests pass the address check. Loopback is allowed only if `url` itself is on loopback. */
export const providerFetch = (url: string, { caBundleFile, allowPrivateIPs }: Reach, directory: string): GuardedFetch =>
  createGuardedFetch({
    caBundleFile: caBundleFile === undefined ? undefined : resolve(directory, caBundleFile),
    allowPrivateIP: allowPrivateIPs,
    allowLoopback: isLoopback(new URL(url)),
    followsWithinOrigin: true,
  })

/** Adapts the guarded fetch to the form that openid-client calls. */
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

/** Returns the secrets of a request, which no text about its answer may repeat. */
function secretsIn(form: string | undefined, headers: Readonly<Record<string, string>>): readonly string[] {
  const fields = new URLSearchParams(form)
  const found = SECRETS.flatMap((name) => fields.getAll(name))
  const basic = /^Basic (.+)$/i.exec(headers['authorization'] ?? '')?.[1]
  if (basic === undefined) return found
  const [, secret = ''] = Buffer.from(basic, 'base64').toString('utf8').split(':', 2)
  return [...found, basic, secret, ...new URLSearchParams(`s=${secret}`).getAll('s')]
}

/** The provider's original answer, for a response that was converted for the library. */
interface Answered {
  readonly secrets: readonly string[]
  readonly status?: number
  readonly document?: unknown
}

/**
 * A response for the library that holds the provider's original answer. The library's errors refer to the response
 * alone, which may have been converted.
 */
export class ProviderResponse extends Response {
  /** The original status. */
  readonly answered: number
  /** Secrets of the request, which must not be logged. */
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

  /** Parses the original text. `read` gets the text and the media type. */
  documentAs(read: (text: string, contentType: string) => unknown): unknown {
    return read(this.#text, this.headers.get('content-type') ?? '')
  }

  /** The original JSON document; undefined if the answer is not JSON. */
  get document(): unknown {
    if (this.#document === undefined) this.#document = parseDocument(this.#text)
    return this.#document
  }
}

const isEmpty = (status: number): boolean => status === 204 || status === 205 || status === 304

/** A provider's answer that can't be used. The message is the gateway's own. */
export class UnusableAnswer extends Error {
  override readonly name = 'UnusableAnswer'
}

/** Parses a JSON object. Throws an UnusableAnswer with this message for any other text. */
export function objectIn(text: string, message: string): Readonly<Record<string, unknown>> {
  const document = parseDocument(text)
  if (!isObject(document)) throw new UnusableAnswer(message)
  return document
}
