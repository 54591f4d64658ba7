import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import type { GatewayConfig } from '../../config/gateway.ts'
import type { Workflow } from '../../config/workflow/compiled.ts'
import type { Caller } from '../../identity/caller.ts'
import type { TokenClaims } from '../../identity/claims.ts'
import type { Catalogs } from '../access/visible-lists.ts'
import { type BuiltCatalog, type Catalog, goodCatalog } from '../aggregation/catalog.ts'
import type { PromptResourceCatalog } from '../aggregation/prompt-resource-catalog.ts'
import { readShape } from '../aggregation/shape.ts'
import type { Backend } from '../backends/backend/backend.ts'
import type { Backends } from '../backends/backends.ts'
import type { CatalogGate } from '../gate/catalog-gate.ts'
import type { GateDecision, MemberSet } from '../gate/decision.ts'
import { cacheBytes } from '../limits/memory-limits.ts'
import type { Setup } from '../request/setup.ts'
import { CallerView } from './caller-view.ts'
import type { Shown } from './list-changes.ts'
import { buildCatalogs, measureCatalogs, missingBackends, type View } from './view.ts'

interface SharedViewOptions {
  readonly backends: Backends
  readonly host: { readonly setup: Pick<Setup, 'config' | 'authorizer'> }
  /** Reports that the lists were rebuilt. */
  onRebuilt(before: Shown, after: Shown): void
  readonly log: Logger
}

/** The view that all callers share. A backend that uses callers' credentials contributes what it lists without one. */
export class SharedView implements View {
  promptsAndResources: PromptResourceCatalog
  /** The version of the lists, which changes with each rebuild. */
  version = 0
  /** The clashing tool names that the configuration must resolve. */
  conflicts: readonly string[] = []
  readonly #options: SharedViewOptions
  #built: BuiltCatalog
  /** The state that clients were last notified of. */
  #shown: Shown

  /** Creates an empty view; `rebuild` fills it. */
  constructor(options: SharedViewOptions) {
    this.#options = options
    const { catalog, promptsAndResources } = buildCatalogs(options.host.setup.config, [])
    this.#built = { catalog, backends: [], tools: new Map() }
    this.promptsAndResources = promptsAndResources
    this.#shown = { authorizer: options.host.setup.authorizer, catalog, promptsAndResources }
  }

  get catalog(): Catalog {
    return this.#built.catalog
  }

  /** Rebuilds the lists from the backends' current lists, under the current configuration. */
  rebuild(): void {
    const before = this.#shown
    const { host, onRebuilt, log } = this.#options
    const { config, authorizer } = host.setup
    this.version++
    const { catalog: next, promptsAndResources } = buildCatalogs(config, this.backends)
    this.promptsAndResources = promptsAndResources
    this.#show(next)
    const { catalog } = this
    this.#shown = { authorizer, catalog, promptsAndResources }
    if (!catalog.legacyList.equals(before.catalog.legacyList)) logWarnings(catalog, log)
    onRebuilt(before, this.#shown)
  }

  /** Shows a new catalog. If names clash, it keeps the last good one. */
  #show(next: Catalog): void {
    const { backends, allListed } = this
    this.conflicts = next.conflicts
    const tools = new Map(backends.map((backend) => [backend, backend.tools]))
    this.#built = goodCatalog({ catalog: next, backends, tools }, this.#built, allListed ? backends : [])
    if (this.catalog !== next)
      this.#options.log.warn({ names: next.conflicts }, 'tool names clash; the last set without a clash stays in use')
  }

  get backends(): readonly Backend[] {
    return this.#options.backends.all
  }

  findBackend(name: string): Backend | undefined {
    return this.#options.backends.named(name)
  }

  get allListed(): boolean {
    return this.#options.backends.allTried
  }

  firstLists(): Promise<void> {
    return this.#options.backends.firstLists()
  }

  get missing(): readonly Backend[] {
    return missingBackends(this.#options.host.setup.config, this.backends)
  }
}

function logWarnings({ warnings, compositeProblems }: Catalog, log: Logger): void {
  if (warnings.length > 0) log.warn({ names: warnings }, 'tool names clash')
  if (compositeProblems.length > 0) log.warn({ tools: compositeProblems }, 'composite tools have problems')
}

/** The most sets of backends whose catalogs are cached. */
const MOST_SETS = 256
/** The most callers whose claims are kept between their requests. */
const MOST_CALLERS = 16_384
/** The most bytes of these claims, and the fixed bytes of a caller. */
const MOST_CALLER_BYTES = 16 * 1024 * 1024
const CALLER_BYTES = 512
/** The number of uses after which a cached entry is marked as recently used again. */
const USES = 16

interface GatedViewsOptions {
  readonly host: {
    readonly setup: { readonly config: GatewayConfig }
    /** The current gate; undefined without one. */
    readonly gate: CatalogGate | undefined
  }
  readonly shared: SharedView
  ownViewOf(binding: string): CallerView | undefined
  readonly memoryBytes?: number | undefined
}

/** The catalogs of a set of backends, built from one version of the shared lists; undefined if they were dropped. */
interface SetCatalogs {
  readonly version: number
  catalogs: Catalogs | undefined
  uses: number
}

/** The catalogs of a set, and the tool catalog with the backends that it was built from. */
interface Kept {
  readonly current: SetCatalogs
  readonly built: BuiltCatalog
}

/**
 * The views of callers under a catalog gate that withholds backends. Callers who may use the same backends share their
 * catalogs. A withheld backend does not affect names, conflicts, instructions and capabilities.
 */
export class GatedViews {
  readonly #options: GatedViewsOptions
  readonly #kept: LRUCache<string, Kept>
  /** The catalogs of each set of the current decision, because a request needs them several times. */
  readonly #current = new WeakMap<MemberSet, SetCatalogs>()
  /** The latest view of each caller. A caller stays the same object while its token is known. */
  readonly #views = new WeakMap<Caller, GatedView>()
  readonly #latest = new LRUCache<string, GatedView>({
    max: MOST_CALLERS,
    maxSize: MOST_CALLER_BYTES,
    dispose: (view) => {
      view.isLatest = false
    },
  })

  constructor(options: GatedViewsOptions) {
    this.#options = options
    this.#kept = new LRUCache({
      max: MOST_SETS,
      maxSize: cacheBytes(options.memoryBytes),
      dispose: ({ current }) => {
        current.catalogs = undefined
      },
    })
  }

  /** The number of sets whose catalogs are cached. */
  get count(): number {
    return this.#kept.size
  }

  get config(): GatewayConfig {
    return this.#options.host.setup.config
  }

  /** The gate, if it withholds backends. */
  get enforced(): CatalogGate | undefined {
    const { gate } = this.#options.host
    return gate?.enforces === true ? gate : undefined
  }

  /**
   * Returns the view of a caller; undefined if nothing is withheld. `own`: the caller's own unfiltered view, if there
   * is one.
   */
  viewFor(caller: Caller, binding: string, own: CallerView | undefined): GatedView | undefined {
    if (this.enforced === undefined) return undefined
    const view = this.#viewIn(caller, binding, own ?? this.#options.shared)
    if (!view.isLatest) {
      this.#latest.set(binding, view, { size: CALLER_BYTES + binding.length + claimsLength(caller) })
      // A view that exceeds the whole limit is not kept.
      view.isLatest = this.#latest.has(binding)
    } else if (++view.uses % USES === 0) this.#latest.get(binding)
    return view
  }

  viewOf(caller: Caller, binding: string): GatedView {
    const own = this.#options.ownViewOf(binding)
    return this.#viewIn(caller, binding, own ?? this.#options.shared)
  }

  #viewIn(caller: Caller, binding: string, base: SharedView | CallerView): GatedView {
    let view = this.#views.get(caller)
    if (view === undefined || view.base !== base || view.binding !== binding)
      this.#views.set(caller, (view = new GatedView(this, base, caller, binding)))
    return view
  }

  /** Returns the view of callers without a token, outside of a request. */
  get anonymous(): View {
    return this.#viewIn(ANONYMOUS, '', this.#options.shared)
  }

  /** Returns the view of a caller outside of a request. An unknown caller sees what callers without a token see. */
  known(binding: string): View {
    return this.#latest.get(binding) ?? this.anonymous
  }

  /** Tells whether a caller may see a backend now. For use outside of a request. */
  sees(binding: string, backend: string): boolean {
    const gate = this.enforced
    return gate === undefined || gate.setFor(this.#latest.get(binding)?.caller ?? ANONYMOUS).names.has(backend)
  }

  /** Returns the catalogs of a set of the shared backends. */
  catalogsOf(set: MemberSet): Catalogs {
    return this.inForce(set, this.#current.get(set)) ?? this.#lookUp(set)
  }

  /** Returns the catalogs of a set if they are those of the newest lists and have not been dropped. */
  inForce(set: MemberSet, current: SetCatalogs | undefined): Catalogs | undefined {
    if (current?.catalogs === undefined || current.version !== this.#options.shared.version) return undefined
    if (++current.uses % USES === 0) this.#kept.get(set.key)
    return current.catalogs
  }

  /** Returns the kept catalogs of a set of the current decision. */
  kept(set: MemberSet): SetCatalogs | undefined {
    return this.#current.get(set)
  }

  #lookUp(set: MemberSet): Catalogs {
    const { shared } = this.#options
    const { version } = shared
    const backends = shared.backends.filter(({ name }) => set.names.has(name))
    if (backends.length === shared.backends.length) {
      this.#current.set(set, { version, catalogs: shared, uses: 0 })
      return shared
    }
    const before = this.#kept.get(set.key)
    if (before?.current.version === version && before.current.catalogs !== undefined) {
      this.#current.set(set, before.current)
      return before.current.catalogs
    }
    const next = buildCatalogs(this.config, backends, createWithheldCheck(this.config, shared, set))
    // If names clash and the configuration must resolve that, the last good catalogs of the set stay, as in the shared
    // view.
    const tools = new Map(backends.map((backend) => [backend, backend.tools]))
    const fresh = { catalog: next.catalog, backends, tools }
    const built = before === undefined ? fresh : goodCatalog(fresh, before.built, shared.allListed ? backends : [])
    const catalogs = { catalog: built.catalog, promptsAndResources: next.promptsAndResources }
    const current = { version, catalogs, uses: 0 }
    this.#kept.set(set.key, { current, built }, { size: measureCatalogs(next) })
    // Catalogs that exceed the whole limit are not kept.
    if (this.#kept.has(set.key)) this.#current.set(set, current)
    return catalogs
  }

  /** Returns the catalogs of a set as they were last built; undefined if they were dropped. */
  lastCatalogsOf(set: MemberSet): Catalogs | undefined {
    return this.#kept.peek(set.key)?.current.catalogs
  }
}

const ANONYMOUS: Caller = { kind: 'anonymous' }

const claimsLength = (caller: Caller): number =>
  caller.kind === 'anonymous' ? 0 : JSON.stringify(caller.claims).length

/**
 * Returns the function that tells whether a composite tool has a step at a backend outside of the set. The names of its
 * steps are resolved among all backends, because a tool in the set may have the same name and not be meant.
 */
function createWithheldCheck(
  config: GatewayConfig,
  whole: Pick<View, 'backends' | 'catalog'>,
  { names }: MemberSet,
): (workflow: Workflow) => boolean {
  if (config.compositeTools === undefined) return () => false
  const prefixes = whole.backends
    .filter(({ name }) => !names.has(name))
    .flatMap(({ name }) => [`${name}.`, readShape(config, name).prefix])
    .filter((prefix) => prefix !== '')
  const { stepTools } = whole.catalog
  const isWithheld = (tool: string): boolean => {
    const known = stepTools.get(tool)
    // A backend that has never listed its tools is recognized by the prefix of their names.
    return known === undefined ? prefixes.some((prefix) => tool.startsWith(prefix)) : !names.has(known.route.backend)
  }
  return ({ tools }) => tools.some(isWithheld)
}

/** One caller's view of the backends that the gate allows. It always shows the newest state of the catalog. */
class GatedView implements View {
  readonly caller: Caller
  readonly binding: string
  readonly base: SharedView | CallerView
  /** True while this is the latest view for its binding that is kept. */
  isLatest = false
  uses = 0
  readonly #views: GatedViews
  /** The last decision, the claims that it was made for, its set, and the set's catalogs, which each request needs. */
  #decision: GateDecision | undefined
  #claims: TokenClaims | undefined
  #decided: MemberSet | undefined
  #current: SetCatalogs | undefined

  constructor(views: GatedViews, base: SharedView | CallerView, caller: Caller, binding: string) {
    this.#views = views
    this.base = base
    this.caller = caller
    this.binding = binding
  }

  get #set(): MemberSet | undefined {
    const gate = this.#views.enforced
    if (gate === undefined) return undefined
    const { decision } = gate
    const claims = gate.claimsOf(this.caller)
    if (decision !== this.#decision || claims !== this.#claims) {
      this.#decision = decision
      this.#claims = claims
      this.#decided = decision.setFor(claims)
      this.#current = undefined
    }
    return this.#decided
  }

  get #catalogs(): Catalogs {
    const set = this.#set
    if (set === undefined) return this.base
    const known = this.#views.inForce(set, this.#current)
    if (known !== undefined) return known
    const catalogs = this.catalogsOf(set)
    if (!(this.base instanceof CallerView)) this.#current = this.#views.kept(set)
    return catalogs
  }

  /** Returns the catalogs that this view would have with this set of backends. */
  catalogsOf(set: MemberSet): Catalogs {
    const base = this.base
    return base instanceof CallerView
      ? base.catalogsFor(set, (whole) => createWithheldCheck(this.#views.config, whole, set))
      : this.#views.catalogsOf(set)
  }

  /** Returns the catalogs of a set as they were last built; undefined if they were dropped. */
  lastCatalogsOf(set: MemberSet): Catalogs | undefined {
    const base = this.base
    return base instanceof CallerView ? base.lastCatalogsFor(set) : this.#views.lastCatalogsOf(set)
  }

  get catalog(): Catalog {
    return this.#catalogs.catalog
  }

  get promptsAndResources(): PromptResourceCatalog {
    return this.#catalogs.promptsAndResources
  }

  get backends(): readonly Backend[] {
    const set = this.#set
    const { backends } = this.base
    return set === undefined ? backends : backends.filter(({ name }) => set.names.has(name))
  }

  get allListed(): boolean {
    return this.base.allListed && this.#views.enforced?.isTried !== false
  }

  async firstLists(): Promise<void> {
    await Promise.all([this.base.firstLists(), this.#views.enforced?.firstAnswers()])
  }

  get missing(): readonly Backend[] {
    return missingBackends(this.#views.config, this.backends)
  }

  findBackend(name: string): Backend | undefined {
    const set = this.#set
    return set === undefined || set.names.has(name) ? this.base.findBackend(name) : undefined
  }
}
