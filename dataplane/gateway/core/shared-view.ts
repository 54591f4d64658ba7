import type { Logger } from 'pino'
import { type BuiltCatalog, type Catalog, goodCatalog } from '../aggregation/catalog.ts'
import type { PromptResourceCatalog } from '../aggregation/prompt-resource-catalog.ts'
import type { Backend } from '../backends/backend/backend.ts'
import type { Backends } from '../backends/backends.ts'
import type { Setup } from '../request/setup.ts'
import type { Shown } from './list-changes.ts'
import { buildCatalogs, missingBackends, type View } from './view.ts'

interface SharedViewOptions {
  readonly backends: Backends
  /** The holder of the setup in force. */
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
    if (!catalog.legacyList.equals(before.catalog.legacyList)) warnOf(catalog, log)
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

  backendNamed(name: string): Backend | undefined {
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

/** Logs warnings about the catalog. */
function warnOf({ warnings, compositeProblems }: Catalog, log: Logger): void {
  if (warnings.length > 0) log.warn({ names: warnings }, 'tool names clash')
  if (compositeProblems.length > 0) log.warn({ tools: compositeProblems }, 'composite tools have problems')
}
