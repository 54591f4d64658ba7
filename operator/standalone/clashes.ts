import { clashesIn } from '../model/clashes.ts'

/** Between two questions (milliseconds). */
const PAUSE_MS = 1_000
const PATIENCE_MS = 2_000

/** Asks a gateway again and again which names of tools clash: its backends tell it, and they may change at any time. */
export class ClashWatch {
  readonly #adminUrl: string
  readonly #onChange: () => void
  #clashes: readonly string[] = []
  #timer: NodeJS.Timeout | undefined
  #isStopped = false

  constructor(adminUrl: string, onChange: () => void) {
    this.#adminUrl = adminUrl
    this.#onChange = onChange
    this.#askLater()
  }

  get clashes(): readonly string[] {
    return this.#clashes
  }

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }

  #askLater(): void {
    if (!this.#isStopped) this.#timer = setTimeout(() => void this.#ask(), PAUSE_MS).unref()
  }

  async #ask(): Promise<void> {
    const clashes = await clashesAt(this.#adminUrl)
    if (!this.#isStopped && clashes !== undefined && clashes.join() !== this.#clashes.join()) {
      this.#clashes = clashes
      this.#onChange()
    }
    this.#askLater()
  }
}

/** Undefined where nobody answers: then what was known last holds. */
async function clashesAt(adminUrl: string): Promise<readonly string[] | undefined> {
  try {
    const response = await fetch(`${adminUrl}/status`, { signal: AbortSignal.timeout(PATIENCE_MS) })
    return clashesIn(await response.json())
  } catch {
    return undefined
  }
}
