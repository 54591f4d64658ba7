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
  /** Where it says what is in force now. */
  readonly host: { readonly setup: Pick<Setup, 'config' | 'judge'> }
  /** The lists have been built anew. */
  onRebuilt(before: Shown, after: Shown): void
  readonly log: Logger
}

/** What all callers see, but for backends that get credentials of their callers: what those show to nobody in particular. */
export class SharedView implements View {
  promptsAndResources: PromptResourceCatalog
  /** Of the lists; another one with each time that they are built. */
  version = 0
  /** Tool names that clash, where the configuration has to resolve that. */
  conflicts: readonly string[] = []
  readonly #options: SharedViewOptions
  #built: BuiltCatalog
  /** What clients have been told of. */
  #shown: Shown

  /** Shows nothing until `rebuild`. */
  constructor(options: SharedViewOptions) {
    this.#options = options
    const { catalog, promptsAndResources } = buildCatalogs(options.host.setup.config, [])
    this.#built = { catalog, backends: [] }
    this.promptsAndResources = promptsAndResources
    this.#shown = { judge: options.host.setup.judge, catalog, promptsAndResources }
  }

  get catalog(): Catalog {
    return this.#built.catalog
  }

  /** Builds the lists anew from what the backends offer now, under the configuration that is in force. */
  rebuild(): void {
    const before = this.#shown
    const { host, onRebuilt, log } = this.#options
    const { config, judge } = host.setup
    this.version++
    const { catalog: next, promptsAndResources } = buildCatalogs(config, this.backends)
    this.promptsAndResources = promptsAndResources
    this.#show(next)
    const { catalog } = this
    this.#shown = { judge, catalog, promptsAndResources }
    if (!catalog.legacyList.equals(before.catalog.legacyList)) warnOf(catalog, log)
    onRebuilt(before, this.#shown)
  }

  /** Shows a catalog, or goes on with the last good one where names clash. */
  #show(next: Catalog): void {
    const { backends, allListed } = this
    this.conflicts = next.conflicts
    this.#built = goodCatalog({ catalog: next, backends }, this.#built, allListed ? backends : [])
    if (this.catalog !== next)
      this.#options.log.warn({ names: next.conflicts }, 'tool names clash, the last good set is shown')
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

/** Logs what people should know of what is shown. */
function warnOf({ warnings, withheldPages, compositeProblems }: Catalog, log: Logger): void {
  if (warnings.length > 0) log.warn({ names: warnings }, 'tool names clash')
  if (withheldPages.length > 0) log.warn({ tools: withheldPages }, 'pages of apps are withheld')
  if (compositeProblems.length > 0) log.warn({ tools: compositeProblems }, 'composite tools have problems')
}
