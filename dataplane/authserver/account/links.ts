import type { UpstreamTokenStore } from '../../upstream-tokens/index.ts'
import type { Clients } from '../clients/clients.ts'
import type { ClientRecord } from '../clients/registration.ts'
import type { CarriedTokens } from '../login/carried-tokens.ts'
import type { Grants, ListedGrant } from '../provider/grants.ts'

/** What a client has been allowed, and what it reaches by that. */
export interface Link {
  /** The grant; no page shows it. */
  readonly grant: string
  readonly clientId: string
  /** What is known of the client; undefined where that can't be said now. */
  readonly client: ClientRecord | undefined
  readonly scopes: readonly string[]
  /** Milliseconds since 1970. */
  readonly since: number
  /** When it ends where it is used no more. */
  readonly endsAt: number
  /** Whether a provider's tokens are there, for each provider. */
  readonly providers: readonly LinkedProvider[]
}

interface LinkedProvider {
  readonly name: string
  readonly isLinked: boolean
  /** When the provider gave what is there, in milliseconds since 1970. */
  readonly since?: number
}

interface LinksOptions {
  readonly grants: Grants
  readonly clients: Clients
  readonly tokens: UpstreamTokenStore
  readonly carried: CarriedTokens
  /** Names of the providers. */
  readonly providers: readonly string[]
  /** Forgets what a user has allowed a client, or without one, all that they have allowed. */
  forgetConsents(subject: string, clientId?: string): Promise<void>
}

/** What is linked to users, and its end. Everything is about the grants of one user. */
export interface Links {
  /** @param address where the person comes from that looks: documents of clients may have to be fetched */
  of(subject: string, address: string | undefined): Promise<readonly Link[]>
  /** The names of it, without what they stand for. */
  named(subject: string): Promise<readonly ListedGrant[]>
  /** Takes what one provider has given from one login. */
  unlink(subject: string, grant: string, provider: string): Promise<void>
  /** Ends a grant, and forgets that the user has allowed its client. */
  revoke(subject: string, grant: ListedGrant): Promise<void>
  /** Ends all grants that are listed, and forgets what later logins would go on with. */
  revokeAll(subject: string): Promise<void>
}

export function createLinks(options: LinksOptions): Links {
  const { grants, clients, tokens, carried, providers, forgetConsents } = options

  /** What can't be looked up now is not what somebody came for. */
  const clientOf = (id: string, address: string | undefined) => clients.find(id, address).catch(() => undefined)

  async function linked(grant: string, subject: string, name: string): Promise<LinkedProvider> {
    const set = await tokens.get({ login: grant, provider: name })
    if (set?.owner !== subject) return { name, isLinked: false }
    return { name, isLinked: true, ...(set.obtainedAt !== undefined && { since: set.obtainedAt }) }
  }

  async function revoke(subject: string, { id, payload }: ListedGrant): Promise<void> {
    // First: a login that is under way must not make what it finds into another grant.
    await forgetConsents(subject, clientIdOf(payload))
    await grants.end(id)
  }

  return {
    async of(subject, address) {
      const listed = await grants.ofUser(subject)
      const ids = new Set(listed.map(({ payload }) => clientIdOf(payload)))
      const known = new Map(await Promise.all([...ids].map(async (id) => [id, await clientOf(id, address)] as const)))
      return Promise.all(
        listed.map(async ({ id, payload, endsAt }) => ({
          grant: id,
          clientId: clientIdOf(payload),
          client: known.get(clientIdOf(payload)),
          scopes: scopesOf(payload),
          since: Number(payload['iat']) * 1000,
          endsAt,
          providers: await Promise.all(providers.map((name) => linked(id, subject, name))),
        })),
      )
    },
    named: (subject) => grants.ofUser(subject),
    async unlink(subject, grant, provider) {
      const place = { login: grant, provider }
      const set = await tokens.get(place)
      await tokens.remove(place)
      if (set?.owner === subject) await carried.forget(provider, set)
    },
    revoke,
    async revokeAll(subject) {
      // What was allowed is remembered for longer than its grant may last.
      await forgetConsents(subject)
      await Promise.all((await grants.ofUser(subject)).map((grant) => revoke(subject, grant)))
      await carried.forgetUser(subject)
    },
  }
}

const clientIdOf = (payload: ListedGrant['payload']): string => String(payload['clientId'])

/** The scopes that the library has noted, as it was told them when the user logged in. */
function scopesOf({ openid }: ListedGrant['payload']): readonly string[] {
  const { scope = '' } = (openid ?? {}) as { readonly scope?: string }
  return scope.split(' ').filter((one) => one !== '')
}
