import { join, resolve } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Logger } from 'pino'
import { parseDuration } from '../../../crds/settings/duration.ts'
import { gateDefaults } from '../../../crds/settings/gateway/defaults.ts'
import type { CatalogGateConfig, GatewayConfig } from '../../config/gateway.ts'
import type { CatalogGateStatus } from '../../config/status.ts'
import type { Caller } from '../../identity/caller.ts'
import type { TokenClaims } from '../../identity/claims.ts'
import { isLate } from '../limits/is-late.ts'
import { snapshotBytes } from '../limits/memory-limits.ts'
import { runSlice, type Steps } from '../limits/slices.ts'
import { decideMembers, GateDecision, type Matched, type MemberSet, type Snapshot } from './decision.ts'
import { findMatches, type GateMember, type Match, type MatchBy } from './match.ts'
import { RegistryPoll } from './registry-poll.ts'
import { SnapshotFile } from './snapshot-file.ts'

interface CatalogGateOptions {
  readonly log: Logger
  readonly stateDirectory: string
  /** The memory limit of this process; absent: the limit that the operator renders for a gateway's container. */
  readonly memoryBytes?: number | undefined
  /** Called when callers may see other backends than before. */
  onChange(before: GateDecision, after: GateDecision): void
}

/** The longest time that the start waits for the first answers of registries. */
const FIRST_MS = 5_000
const NO_CLAIMS: TokenClaims = Object.freeze({})
const NOTHING = new GateDecision([])

/** Decides by registries which backends a caller may use: those whose entry the registry would show to the caller. */
export class CatalogGate {
  decision: GateDecision = NOTHING
  #config: CatalogGateConfig
  #members: readonly GateMember[] = []
  /** The provider whose claims replace those of the caller's token, as for policies. */
  #provider: string | undefined
  #polls: readonly RegistryPoll[] = []
  readonly #matches = new Map<RegistryPoll, RegistryMatches>()
  #key: unknown
  readonly #options: CatalogGateOptions
  readonly #started = performance.now()
  /** Set once every registry of the decision in force has been asked, since each request asks for that. */
  #isTried = false
  #isClosed = false

  constructor(config: CatalogGateConfig, options: CatalogGateOptions) {
    this.#config = config
    this.#options = options
  }

  /** Applies a configuration with a gate. Registries whose settings have not changed keep their rows. */
  apply(config: GatewayConfig, gate: CatalogGateConfig, directory: string): void {
    this.#config = gate
    const members = listMembers(config, gate)
    if (!isDeepStrictEqual(members, this.#members)) this.#members = members
    this.#provider = config.authz?.primaryUpstreamProvider
    const key = [gate.registries, gate.maxStale, gate.onUnavailable, directory, config.namespace, config.name]
    if (!isDeepStrictEqual(key, this.#key)) {
      this.#key = key
      this.#endPolls()
      this.#polls = this.#newPolls(config, gate, directory)
    }
    this.#decide()
  }

  #newPolls({ namespace, name: gateway }: GatewayConfig, gate: CatalogGateConfig, directory: string): RegistryPoll[] {
    const { stateDirectory, log, memoryBytes } = this.#options
    const folder = join(stateDirectory, 'catalog', encodeURIComponent(`${namespace}.${gateway}`))
    return (gate.registries ?? []).map(
      (config) =>
        new RegistryPoll({
          config,
          fileAt: (path) => resolve(directory, path),
          file: new SnapshotFile(folder, config.name, JSON.stringify([config.url, config.registry])),
          maxStaleMs: parseDuration(gate.maxStale ?? gateDefaults.maxStale),
          closesAtOnce: gate.onUnavailable === 'close',
          mostBytes: snapshotBytes(memoryBytes),
          log,
          onChange: () => this.#decide(),
        }),
    )
  }

  #decide(): void {
    if (this.#isClosed) return
    const before = this.decision
    this.#isTried = false
    const asked = this.#polls.map((poll) => ({ name: poll.name, matched: this.#matchedBy(poll) }))
    this.decision = new GateDecision(decideMembers(this.#members, asked))
    this.#options.onChange(before, this.decision)
  }

  #matchedBy(poll: RegistryPoll): Matched | undefined {
    const { usable } = poll
    if (usable === undefined) return undefined
    let matches = this.#matches.get(poll)
    if (matches === undefined) this.#matches.set(poll, (matches = new RegistryMatches(() => this.#decide())))
    return matches.of(usable, this.#members, this.#config.match ?? gateDefaults.match)
  }

  /** Resolves when all catalogs have been searched. */
  get #looked(): Promise<unknown> {
    return Promise.all([...this.#matches.values()].map(({ pending }) => pending))
  }

  /** True if backends are withheld; false if they are only reported. */
  get enforces(): boolean {
    return this.#config.mode === 'enforce'
  }

  /** Returns the claims of a caller on which policies, and so the gate, decide. */
  claimsOf(caller: Caller): TokenClaims {
    if (caller.kind === 'anonymous') return NO_CLAIMS
    if (this.#provider === undefined) return caller.claims
    const { policyIdentity } = caller
    return policyIdentity !== undefined && 'claims' in policyIdentity ? policyIdentity.claims : NO_CLAIMS
  }

  /** Returns the backends that a caller may use according to the catalog. */
  setFor(caller: Caller): MemberSet {
    return this.decision.setFor(this.claimsOf(caller))
  }

  /** True if every registry has been asked once or has taken too long. */
  get isTried(): boolean {
    this.#isTried ||=
      this.#polls.every((poll) => poll.isTried && this.#matches.get(poll)?.pending === undefined) ||
      performance.now() - this.#started > FIRST_MS
    return this.#isTried
  }

  /** Resolves when every registry has been asked once or has taken too long. */
  async firstAnswers(): Promise<void> {
    const tried = Promise.all(this.#polls.map(({ tried }) => tried.promise)).then(() => this.#looked)
    // A fault rejects, as for every other step of a request.
    if (!(await isLate(tried, FIRST_MS))) await tried
  }

  get status(): CatalogGateStatus {
    return {
      mode: this.enforces ? 'enforce' : 'report',
      registries: this.#polls.map(({ name, state, problem = null, ageSeconds }) => ({
        ...{ name, state, problem },
        ageSeconds: ageSeconds === undefined ? null : Math.round(ageSeconds),
      })),
      members: this.decision.members.map(({ backend, reason = null, detail = null, deprecated }) => ({
        name: backend,
        ...{ reason, detail, deprecated },
      })),
    }
  }

  #endPolls(): void {
    for (const matches of this.#matches.values()) matches.stop()
    this.#matches.clear()
    for (const poll of this.#polls)
      poll
        .close()
        .catch((error) => this.#options.log.debug({ err: error }, 'connections to a registry could not be closed'))
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const matches of this.#matches.values()) matches.stop()
    await Promise.all(this.#polls.map((poll) => poll.close()))
  }
}

/** Returns the backends with the facts by which the catalog finds them. A backend without such facts has its URL. */
export function listMembers(
  { backends }: Pick<GatewayConfig, 'backends'>,
  { members = [] }: CatalogGateConfig,
): readonly GateMember[] {
  const named = new Map(members.map((member) => [member.backend, member]))
  return backends.map(({ name, url }) => named.get(name) ?? { backend: name, url })
}

/** A catalog, and the members to search. */
interface Question {
  readonly snapshot: Snapshot
  readonly members: readonly GateMember[]
  readonly by: MatchBy
}

/** An answered question: the matches by the JSON text of their members. */
interface Answered extends Question {
  readonly matches: ReadonlyMap<string, Match>
}

/**
 * Searches the members in the catalog of one registry. A large catalog is searched in steps; until the end, unchanged
 * members keep their earlier matches.
 */
export class RegistryMatches {
  readonly #onAnswer: () => void
  #asked: Question | undefined
  #answered: Answered | undefined
  pending: Promise<void> | undefined

  /** @param onAnswer called when the search of a large catalog has ended */
  constructor(onAnswer: () => void) {
    this.#onAnswer = onAnswer
  }

  /** Returns the matches that are known so far. */
  of(snapshot: Snapshot, members: readonly GateMember[], by: MatchBy): Matched | undefined {
    const asked = this.#asked
    if (asked?.snapshot !== snapshot || asked.members !== members || asked.by !== by)
      this.#ask({ snapshot, members, by })
    const known = this.#answered
    if (known?.by !== by) return undefined
    return { rules: known.snapshot, matches: members.map((member) => known.matches.get(keyOf(member))) }
  }

  #ask(question: Question): void {
    this.#asked = question
    this.pending = undefined
    const work = findMatches(question.members, question.snapshot.rows, question.by)
    const slice = runSlice(work)
    if (slice.done === true) this.#answer(question, slice.value)
    else this.pending = this.#goOn(question, work)
  }

  async #goOn(question: Question, work: Steps<readonly Match[]>): Promise<void> {
    for (;;) {
      await setImmediate()
      if (this.#asked !== question) return
      const slice = runSlice(work)
      if (slice.done !== true) continue
      this.pending = undefined
      this.#answer(question, slice.value)
      this.#onAnswer()
      return
    }
  }

  #answer(question: Question, matches: readonly Match[]): void {
    const found = question.members.map((member, index) => [keyOf(member), matches[index] as Match] as const)
    this.#answered = { ...question, matches: new Map(found) }
  }

  stop(): void {
    this.#asked = undefined
    this.pending = undefined
  }
}

const keyOf = (member: GateMember): string => JSON.stringify(member)
