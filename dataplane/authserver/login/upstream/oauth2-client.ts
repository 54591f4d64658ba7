import { resolve } from 'node:path'
import * as client from 'openid-client'
import type { OAuth2UpstreamConfig } from '../../../config/authserver/upstream.ts'
import { secretFile } from '../../../config/secret-file.ts'
import { ProviderResponse, providerFetch, webFetch } from './provider-fetch.ts'
import type { RegisteredClient, Registration } from './registered-client.ts'
import { documentOf, errorIn, standardAnswer } from './token-answer.ts'

/** What one request to the token endpoint has brought; filled in by the request. */
export interface Answered {
  /** As the provider wrote it. */
  document?: unknown
  refreshToken?: string | undefined
}

/** The gateway as a client of one OAuth 2 provider, by the npm package openid-client. */
export interface OAuth2Client {
  /** The library's view of the provider, for addresses that are made and not called. */
  described(): Promise<client.Configuration>
  /** Has the library ask the token endpoint; its answer is brought into the standard form before the library checks it. */
  ask<T>(grant: (provider: client.Configuration) => Promise<T>, answered: Answered): Promise<T>
  close(): Promise<void>
}

interface OAuth2ClientOptions {
  readonly config: OAuth2UpstreamConfig
  readonly directory: string
  /** Absent: the client is a configured one. */
  readonly registration: Registration | undefined
}

/** A client, and the ways in which it may authenticate itself (RFC 6749 section 2.3.1). */
interface Own {
  readonly id: string
  readonly ways: readonly client.ClientAuth[]
}

export function createOAuth2Client({ config, directory, registration }: OAuth2ClientOptions): OAuth2Client {
  const { authorizationEndpoint, tokenEndpoint } = config
  const fetch = providerFetch(tokenEndpoint, config, directory)
  const metadata = {
    // Nothing tells it, and nothing that names one is handed on.
    issuer: new URL(tokenEndpoint).origin,
    authorization_endpoint: authorizationEndpoint,
    token_endpoint: tokenEndpoint,
  }
  const given = givenClient(config, directory)
  const own = async (): Promise<Own> => (registration === undefined ? given : ownOf(await registration.client()))
  /** The way that the given client has authenticated itself in, by its place. */
  let way: number | undefined

  function describedFor(id: string, auth: client.ClientAuth, answered: Answered): client.Configuration {
    const provider = new client.Configuration(metadata, id, undefined, auth)
    if ([authorizationEndpoint, tokenEndpoint].some((url) => url.startsWith('http:')))
      client.allowInsecureRequests(provider)
    provider[client.customFetch] = async (...request) => {
      const response = await webFetch(fetch)(...request)
      const document = documentOf(await response.text(), response.headers.get('content-type') ?? '')
      const code = errorIn(document)
      if (response.status !== 200 || code !== undefined) return errorResponse(response, code, document)
      const answer = standardAnswer(document, config.tokenResponseMapping)
      Object.assign(answered, { document, refreshToken: answer.refresh_token })
      return Response.json(answer)
    }
    return provider
  }

  return {
    described: async () => describedFor((await own()).id, client.None(), {}),
    async ask(grant, answered) {
      const { id, ways } = await own()
      const places = way === undefined ? ways.keys() : [way]
      let refusal: unknown
      for (const place of places) {
        try {
          const found = await grant(describedFor(id, ways[place] as client.ClientAuth, answered))
          way = place
          return found
        } catch (error) {
          // It may take the other way: it has not said which.
          const isRefused = error instanceof client.ResponseBodyError && error.error !== 'invalid_grant'
          if (!isRefused) throw error
          refusal = error
        }
      }
      throw refusal
    },
    async close() {
      await Promise.all([fetch.close(), registration?.close()])
    },
  }
}

/** A configured client, with the secret as it is in the file now. Providers take the one way, the other, or both. */
function givenClient({ clientId = '', clientSecretFile }: OAuth2UpstreamConfig, directory: string): Own {
  if (clientSecretFile === undefined) return { id: clientId, ways: [client.None()] }
  const read = secretFile(resolve(directory, clientSecretFile))
  const by =
    (make: (secret: string) => client.ClientAuth): client.ClientAuth =>
    (...request) =>
      make(read())(...request)
  return { id: clientId, ways: [by(client.ClientSecretBasic), by(client.ClientSecretPost)] }
}

/** A registered client, with the one way that it was registered with. */
function ownOf({ id, secret, method }: RegisteredClient): Own {
  if (method === 'none') return { id, ways: [client.None()] }
  return {
    id,
    ways: [method === 'client_secret_basic' ? client.ClientSecretBasic(secret) : client.ClientSecretPost(secret)],
  }
}

/** An error as the library knows one: nothing of it but the code is ever read. */
function errorResponse(
  { status, secrets }: ProviderResponse,
  code: string | undefined,
  document: unknown,
): ProviderResponse {
  const isRefusal = status >= 400 && status < 500 && status !== 429
  const answered = { status, secrets, document }
  if (status !== 200 && !isRefusal) return new ProviderResponse('', status, {}, answered)
  const text = JSON.stringify({ error: code ?? 'invalid_request' })
  return new ProviderResponse(text, isRefusal ? status : 400, { 'content-type': 'application/json' }, answered)
}
