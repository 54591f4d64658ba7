import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { OidcConfig } from '../../../dataplane/config/gateway-oidc.ts'
import { startGateway } from '../gateway/gateway.ts'
import { postModern } from '../gateway/post.ts'
import { registryFile, server, startRegistry } from '../registry/registry.ts'

/** A server's answer to a request with these credentials. */
interface Answer {
  readonly status: number
  /** `WWW-Authenticate`; empty if there is none. */
  readonly challenge: string
  readonly text: string
}

/** A gateway or registry that requires a token. */
export interface ProtectedServer {
  readonly kind: 'gateway' | 'registry'
  readonly base: string
  readonly resource: string
  readonly metadataUrl: string
  /** Realm of its challenges. */
  readonly realm: string
  ask(authorization?: string, headers?: Record<string, string>): Promise<Answer>
  /** The whole log so far. */
  log(): string
  close(): Promise<void>
}

/** The accepted issuer, in the same form for both kinds of server. */
export interface TestIssuer {
  readonly issuer: string
  readonly audience: string
  readonly jwksUrl?: string
  readonly allowPrivateIP?: boolean
  /** PEM file of the CA for the issuer's endpoints. */
  readonly caFile?: string
  readonly client?: { readonly id: string; readonly secret: string; readonly url?: string }
}

const SECRET_FILE = 'client-secret'

async function parseAnswer(pending: Promise<Response>): Promise<Answer> {
  const response = await pending
  const challenge = response.headers.get('www-authenticate') ?? ''
  return { status: response.status, challenge, text: await response.text() }
}

/** Starts a gateway without backends that accepts callers of one issuer. `more` are settings of `incomingAuth.oidc`. */
export async function protectedGateway(
  { issuer, audience, jwksUrl, allowPrivateIP = false, caFile, client }: TestIssuer,
  more: Partial<OidcConfig> = {},
): Promise<ProtectedServer> {
  const resource = 'https://gateway.example/mcp'
  const introspection = client && {
    clientId: client.id,
    clientSecretFile: SECRET_FILE,
    ...(client.url === undefined ? {} : { url: client.url }),
  }
  const oidc = {
    issuer,
    audience,
    allowPrivateIP,
    ...(jwksUrl === undefined ? {} : { jwksUrl }),
    ...(caFile === undefined ? {} : { caBundleFile: caFile }),
    ...(introspection === undefined ? {} : { introspection }),
    ...more,
  }
  const gateway = await startGateway(
    { backends: [], resourceUrl: resource, incomingAuth: { type: 'oidc', oidc } },
    (directory) => writeFile(join(directory, SECRET_FILE), client?.secret ?? ''),
  )
  return {
    kind: 'gateway',
    base: gateway.base,
    resource,
    metadataUrl: 'https://gateway.example/.well-known/oauth-protected-resource/mcp',
    realm: issuer,
    async ask(authorization, headers = {}) {
      const sent = authorization === undefined ? headers : { ...headers, authorization }
      const answer = await postModern(gateway.url, 'server/discover', {}, sent)
      return { status: answer.status, challenge: answer.headers.get('www-authenticate') ?? '', text: answer.text }
    },
    log: () => JSON.stringify(gateway.lines),
    close: () => gateway.close(),
  }
}

/** Starts a registry in auth-only mode that accepts callers of these issuers. */
export async function protectedRegistry(...issuers: readonly TestIssuer[]): Promise<ProtectedServer> {
  const resource = 'https://registry.example/catalog'
  const providers = issuers.map(({ issuer, audience, jwksUrl, allowPrivateIP, caFile, client }, index) => ({
    name: `issuer-${index}`,
    issuerUrl: issuer,
    audience,
    jwksUrl,
    allowPrivateIP,
    caCertPath: caFile,
    clientId: client?.id,
    clientSecretFile: client && `../${SECRET_FILE}`,
    introspectionUrl: client?.url,
  }))
  const client = issuers.find((issuer) => issuer.client !== undefined)?.client
  const registry = await startRegistry(
    { one: registryFile([server('example.com/one')]) },
    { auth: { mode: 'oauth', oauth: { resourceUrl: resource, providers } } },
    client === undefined ? {} : { [SECRET_FILE]: client.secret },
  )
  return {
    kind: 'registry',
    base: registry.url,
    resource,
    metadataUrl: 'https://registry.example/.well-known/oauth-protected-resource/catalog',
    realm: 'mcp-registry',
    ask: (authorization, headers = {}) =>
      parseAnswer(registry.get('/servers', authorization === undefined ? headers : { ...headers, authorization })),
    log: () => registry.log.text(),
    close: () => registry.close(),
  }
}
