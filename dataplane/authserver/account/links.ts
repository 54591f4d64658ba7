import { type Place, placeOfUser, type UpstreamTokenStore } from '../../upstream-tokens/index.ts'
import type { Clients } from '../clients/clients.ts'
import type { ClientRecord } from '../clients/registration.ts'
import type { CarriedTokens } from '../login/carried-tokens.ts'
import type { LinkedClient } from '../pages/account-pages.ts'
import type { Grants, ListedGrant } from '../provider/grants.ts'

/** A client's grant, and the providers that it reaches. */
export interface Link extends Pick<LinkedClient, 'scopes' | 'since' | 'endsAt'> {
  /** The id of the grant, which no page shows. */
  readonly grant: string
  readonly clientId: string
  /** Undefined if the client can't be looked up now. */
  readonly client: ClientRecord | undefined
  /** The providers, with or without tokens. */
  readonly providers: readonly LinkedProvider[]
}

interface LinkedProvider extends Pick<LinkedClient['providers'][number], 'isLinked' | 'since'> {
  readonly name: string
}

interface LinksOptions {
  readonly grants: Grants
  readonly clients: Clients
  readonly tokens: UpstreamTokenStore
  readonly carried: CarriedTokens
  /** Names of the providers whose tokens belong to logins. */
  readonly providers: readonly string[]
  /** Names of the providers whose tokens belong to users. */
  readonly perUser: readonly string[]
  readonly issuer: string
  /** Revokes a user's consents for one client, or without a client for all. */
  forgetConsents(subject: string, clientId?: string): Promise<void>
}

export type Links = ReturnType<typeof createLinks>

/** Lists and ends what is linked to a user. All methods work on the grants of one user. */
export function createLinks(options: LinksOptions) {
  const { grants, clients, tokens, carried, providers, perUser, issuer, forgetConsents } = options

  /** A failed look-up of a client must not hide the user's links. */
  const findClient = (id: string, address: string | undefined) => clients.find(id, address).catch(() => undefined)

  async function linked(place: Place, subject: string): Promise<LinkedProvider> {
    const { provider: name } = place
    const set = await tokens.get(place)
    if (set?.owner !== subject) return { name, isLinked: false }
    return { name, isLinked: true, ...(set.obtainedAt !== undefined && { since: set.obtainedAt }) }
  }

  /** Removes the tokens of a place. Returns whether they were the user's. */
  async function unlink(place: Place, subject: string): Promise<boolean> {
    const set = await tokens.get(place)
    await tokens.remove(place)
    if (set?.owner !== subject) return false
    await carried.forget(place.provider, set)
    return true
  }

  return {
    /** @param address the source address of the user's request, since client documents may have to be fetched */
    async of(subject: string, address: string | undefined): Promise<readonly Link[]> {
      const listed = await grants.ofUser(subject)
      const ids = new Set(listed.map(({ payload }) => readClientId(payload)))
      const known = new Map(await Promise.all([...ids].map(async (id) => [id, await findClient(id, address)] as const)))
      return Promise.all(
        listed.map(async ({ id, payload, endsAt }) => ({
          grant: id,
          clientId: readClientId(payload),
          client: known.get(readClientId(payload)),
          scopes: readScopes(payload),
          since: Number(payload['iat']) * 1000,
          endsAt,
          providers: await Promise.all(providers.map((provider) => linked({ login: id, provider }, subject))),
        })),
      )
    },
    /** Lists the grants without their details. */
    named: (subject: string) => grants.ofUser(subject),
    async unlink(subject: string, grant: string, provider: string): Promise<void> {
      await unlink({ login: grant, provider }, subject)
    },
    /** Returns the providers whose tokens belong to the user and to no single login. */
    ofUser: (subject: string) =>
      Promise.all(perUser.map((name) => linked(placeOfUser({ issuer, subject }, name), subject))),
    /** Removes the user's own tokens of one provider. Returns whether there were any. */
    unlinkUser: (subject: string, provider: string) => unlink(placeOfUser({ issuer, subject }, provider), subject),
    /** Ends a grant, and revokes the user's consent for its client. */
    async revoke(subject: string, { id, payload }: ListedGrant): Promise<void> {
      // This comes first, so that a login under way does not turn an earlier consent into a new grant.
      await forgetConsents(subject, readClientId(payload))
      await grants.end(id)
    },
    /**
     * Ends all grants, also those that are not listed, and all tokens of the user without a grant. It also removes the
     * user's own tokens of providers, and the refresh tokens that later logins would reuse.
     */
    async revokeAll(subject: string): Promise<void> {
      // A consent may outlast its grant.
      await forgetConsents(subject)
      await grants.endAll(subject)
      // The tokens are removed after the logins have ended, so that a link followed in between leaves no tokens.
      await tokens.removeLogin(placeOfUser({ issuer, subject }, '').login)
      await carried.forgetUser(subject)
    },
  }
}

const readClientId = (payload: ListedGrant['payload']): string => String(payload['clientId'])

/** Returns the scopes that the library stored when the user logged in. */
function readScopes({ openid }: ListedGrant['payload']): readonly string[] {
  const { scope = '' } = (openid ?? {}) as { readonly scope?: string }
  return scope.split(' ').filter((one) => one !== '')
}
