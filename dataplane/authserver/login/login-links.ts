import { isOfUser, type LinkOffer, type Place } from '../../upstream-tokens/index.ts'
import { isEqual, randomSecret } from '../keys/keyed-hash.ts'
import type { Grants } from '../provider/grants.ts'
import type { Revocations } from '../provider/revocations.ts'
import { firstRecord, type HeldBy } from '../store/record-store.ts'
import type { Login } from './chain-login.ts'
import type { Browser, Choose, Done, Failed, LoginParts, Refused, Respond } from './login.ts'

interface LoginLinksOptions extends Omit<LoginParts, 'log'> {
  readonly grants: Pick<Grants, 'find' | 'identifiedBy' | 'findUser' | 'haveEnded'>
  readonly revocations: Pick<Revocations, 'has'>
  readonly login: Pick<Login, 'pass'>
  /** Names of the providers that identify users. */
  readonly primaries: readonly string[]
  /** Names of the providers at which users log in later, by a link. */
  readonly onDemand: ReadonlySet<string>
  /** Names of those among them whose tokens belong to a user and not to a login. */
  readonly perUser: ReadonlySet<string>
  readonly url: string
  /** Milliseconds since 1970. */
  readonly now?: () => number
}

/** The caller who needs a link, as their token identifies them. */
interface Asking {
  readonly subject: string
  readonly login?: string | undefined
  /** The provider at which the caller logs in, if the token belongs to no login. */
  readonly loginProvider?: string | undefined
  readonly name?: string | undefined
  readonly email?: string | undefined
}

/** The user of a link that belongs to no login. */
interface OfUser {
  /** The provider that knows the user. */
  readonly by: string
  /**
   * The second in which the link was made, since 1970. The link ends if everything of the user ends in this second or
   * later.
   */
  readonly since: number
  readonly name?: string | undefined
  readonly email?: string | undefined
}

/** The login, or user, and the provider that a link is for. */
export interface Wanted extends Place {
  /** Subject of the user in our tokens. */
  readonly owner: string
  /** Absent for a link of one login. */
  readonly ofUser?: OfUser
}

interface LinkRecord extends Wanted {
  readonly nonce: string
  readonly madeAt: number
}

/**
 * The time for which a user's tokens are kept after the link and after each refresh, in seconds. They end earlier if
 * the user unlinks them or the provider revokes them.
 */
export const KEPT_S = 365 * 24 * 3600
/** The lifetime of a link, in seconds. */
const LINK_S = 600
/** The age in milliseconds from which a link is not offered again, because its user would have too little time. */
const GIVEN_MS = 300_000
/** A ticket: the name of its record, and the proof that it was made here. */
const TICKET = /^([\w-]{43})\.([\w-]{43})$/

const heldBy = ({ login, owner, ofUser }: Wanted): HeldBy => (ofUser === undefined ? { grant: login } : [owner])

const formatName = (place: Place) => JSON.stringify([place.login, place.provider])

/**
 * Links by which users log in at a provider that a call needs and that logins do not visit. The provider's tokens go to
 * the login that the link names, or to the user if they belong to the user. Only that user can use the link, because
 * following it begins with a login that identifies the user. At any time there is one link for each login (or user) and
 * provider, over all replicas.
 */
export class LoginLinks {
  readonly #options: LoginLinksOptions
  readonly #now: () => number

  constructor(options: LoginLinksOptions) {
    this.#options = options
    this.#now = options.now ?? Date.now
  }

  /** Tells whether users log in at this provider by a link. */
  has(provider: string): boolean {
    return this.#options.onDemand.has(provider)
  }

  /** Tells whether the tokens of this provider belong to users and not to logins. */
  isPerUser(provider: string): boolean {
    return this.#options.perUser.has(provider)
  }

  /** Returns the names of the providers that the user visits, in order. The first one identifies the user. */
  async way({ login, provider, ofUser }: Pick<Wanted, 'login' | 'provider' | 'ofUser'>): Promise<readonly string[]> {
    return [ofUser === undefined ? await this.#findPrimary({ login }) : this.#known(ofUser.by), provider]
  }

  async findAccount({ login, ofUser }: Wanted): Promise<{ readonly name?: string; readonly email?: string }> {
    if (ofUser === undefined) return this.#options.grants.findUser(login)
    const { name, email } = ofUser
    return { ...(name !== undefined && { name }), ...(email !== undefined && { email }) }
  }

  async #findPrimary({ login, loginProvider }: Pick<Asking, 'login' | 'loginProvider'>): Promise<string> {
    const { primaries, grants } = this.#options
    if (primaries.length < 2 || login === undefined) return this.#known(loginProvider)
    return this.#known(await grants.identifiedBy(login))
  }

  #known(name: string | undefined): string {
    const { primaries } = this.#options
    return name !== undefined && primaries.includes(name) ? name : (primaries[0] ?? '')
  }

  /** Returns the link that the user can follow now. */
  async offer(place: Place, asking: Asking): Promise<LinkOffer> {
    const { store, keyed, url } = this.#options
    const { login, provider } = place
    const name = keyed().of('link', formatName(place))
    const ofUser = isOfUser(place)
    const made = async (): Promise<LinkRecord> => ({
      login,
      provider,
      owner: asking.subject,
      nonce: randomSecret(),
      madeAt: this.#now(),
      ...(ofUser && { ofUser: await this.#ofUser(asking) }),
    })
    const record = (await this.#lasting(name)) ?? (await this.#keep(name, await made()))
    await store.settled()
    const ticket = `${name}.${keyed().of('ticket', `${name}.${record.nonce}`)}`
    const id = keyed().of('link-id', ticket)
    return { id, url: `${url}?ticket=${ticket}`, provider, ...(ofUser && { isForAll: true }) }
  }

  async #ofUser(asking: Asking): Promise<OfUser> {
    const { name, email } = asking
    return { by: await this.#findPrimary(asking), since: Math.floor(this.#now() / 1000), name, email }
  }

  /** Returns the record of this name, unless it ends soon. */
  async #lasting(name: string): Promise<LinkRecord | undefined> {
    const record = await this.#read(name)
    return record !== undefined && this.#now() - record.madeAt < GIVEN_MS ? record : undefined
  }

  /** Stores a record unless another replica has stored one. Returns the stored record. */
  async #keep(name: string, made: LinkRecord): Promise<LinkRecord> {
    const { store } = this.#options
    const text = JSON.stringify(made)
    const term = { ttlS: LINK_S, by: heldBy(made) }
    if (await store.add('link', name, text, term)) return made
    const other = await this.#lasting(name)
    if (other !== undefined) return other
    await store.set('link', name, text, term)
    return made
  }

  #read(name: string): Promise<LinkRecord | undefined> {
    return firstRecord<LinkRecord>([name], (one) => this.#options.store.get('link', one))
  }

  /** Returns the login and provider of a link without using it up, or undefined if it is invalid or has ended. */
  async find(ticket: string): Promise<Wanted | undefined> {
    const [, name = '', proof = ''] = TICKET.exec(ticket) ?? []
    if (name === '') return undefined
    const record = await this.#read(name)
    return record !== undefined && this.#isProven(name, record, proof) ? record : undefined
  }

  #isProven(name: string, { nonce }: LinkRecord, proof: string): boolean {
    return this.#options.keyed().matches('ticket', `${name}.${nonce}`, proof)
  }

  /** Returns the proof that a form was sent by the page of a link, as shown in this browser. */
  formToken(ticket: string, { id }: Browser): string {
    return this.#options.keyed().of('link-form', JSON.stringify([ticket, id]))
  }

  /** Uses up a link and sends the browser to the providers. `trace` is the request's trace context, if traced. */
  async begin(
    ticket: string,
    formToken: string,
    browser: Browser | undefined,
    trace?: string,
  ): Promise<Respond | Choose | Failed | Refused> {
    const { store, keyed, login, loginS } = this.#options
    if (browser === undefined || !keyed().matches('link-form', JSON.stringify([ticket, browser.id]), formToken))
      return { kind: 'refused' }
    const wanted = await this.#take(ticket)
    if (wanted === undefined || !this.has(wanted.provider)) return { kind: 'refused' }
    const uid = randomSecret()
    await store.set('linking', keyed().of('linking', uid), JSON.stringify(wanted), {
      ttlS: loginS,
      by: heldBy(wanted),
    })
    const providers = await this.way(wanted)
    const flow = { purpose: 'link', uid, providers, subject: wanted.owner } as const
    return login.pass({ ...flow, ...(trace !== undefined && { trace }) }, browser)
  }

  /** Takes a link. Only one of several requests with the same link gets it. */
  async #take(ticket: string): Promise<Wanted | undefined> {
    if ((await this.find(ticket)) === undefined) return undefined
    const [, name = '', proof = ''] = TICKET.exec(ticket) ?? []
    const record = await firstRecord<LinkRecord>([name], (one) => this.#options.store.take('link', one))
    if (record === undefined || !this.#isProven(name, record, proof)) return undefined
    const { nonce: _, madeAt: __, ...wanted } = record
    return wanted
  }

  /**
   * Moves the provider's tokens to the login or user of the link, if that still exists and belongs to the user who has
   * just logged in. Returns the provider's name. Otherwise it removes the tokens and returns undefined.
   */
  async finish({ uid, login, user }: Done): Promise<string | undefined> {
    const { store, keyed, tokens } = this.#options
    try {
      const names = keyed().all('linking', uid)
      const wanted = await firstRecord<Wanted>(names, (name) => store.take('linking', name))
      if (wanted === undefined || !this.has(wanted.provider)) return undefined
      if (!isEqual(wanted.owner, user.subject) || !(await this.#lives(wanted))) return undefined
      return (await this.#handOver(login, wanted)) ? wanted.provider : undefined
    } finally {
      await tokens.removeLogin(login)
    }
  }

  async #handOver(from: string, wanted: Wanted): Promise<boolean> {
    const { tokens, carried, keepS } = this.#options
    const { login, provider, owner } = wanted
    const given = await tokens.get({ login: from, provider })
    if (given === undefined) return false
    const { version: _, ...others } = given
    const set = await carried.completed(provider, { ...others, owner })
    await tokens.put({ login, provider }, set, { ttlMs: (wanted.ofUser === undefined ? keepS : KEPT_S) * 1000 })
    if (await this.#lives(wanted)) return true
    // The login, or all of the user, ended while these tokens were stored, so that end may have missed them.
    await carried.forget(provider, set)
    await tokens.removeLogin(login)
    return false
  }

  /**
   * Tells whether the login still exists and belongs to this user or, for a link of a user, that the user has not ended
   * everything since.
   */
  async #lives({ login, owner, ofUser }: Wanted): Promise<boolean> {
    const { grants, revocations } = this.#options
    if (ofUser !== undefined) return !(await grants.haveEnded(owner, ofUser.since))
    if (revocations.has(login)) return false
    const subject = (await grants.find(login))?.['accountId']
    return typeof subject === 'string' && isEqual(subject, owner)
  }
}
