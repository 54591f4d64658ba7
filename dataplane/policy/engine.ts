import { createRequire } from 'node:module'
import type * as cedar from '@cedar-policy/cedar-wasm/nodejs'

type Cedar = typeof cedar

const PACKAGE = '@cedar-policy/cedar-wasm/nodejs'
const require = createRequire(import.meta.url)

/**
 * The Cedar engine (WebAssembly, 60 MB), loaded when the first policy is compiled. Compiled policy sets live in its
 * memory, under names. A trap (such as a stack overflow) leaves that memory undefined. The engine is then loaded again,
 * and policy sets are compiled again on their next use.
 */
class Engine {
  #cedar: Cedar | undefined
  /** The generation changes when compiled policy sets are lost. */
  generation = 0
  #sets = 0
  readonly #free: string[] = []
  /** The engine has no call that drops a policy set: its name is reused once nobody can use the old set. */
  readonly #collected = new FinalizationRegistry<string>((name) => this.#release(name))

  /** Runs a function with the engine. Throws an EngineFault, which says nothing about permissions. */
  run<T>(use: (engine: Cedar) => T): T {
    try {
      this.#cedar ??= require(PACKAGE) as Cedar
      return use(this.#cedar)
    } catch (cause) {
      this.#cedar = undefined
      this.generation++
      delete require.cache[require.resolve(PACKAGE)]
      throw new EngineFault(cause)
    }
  }

  /** Returns a name for a policy set that lives as long as `owner`. */
  nameFor(owner: object): string {
    const name = this.#free.pop() ?? `set-${this.#sets++}`
    this.#collected.register(owner, name)
    return name
  }

  #release(name: string): void {
    try {
      this.#cedar?.preparsePolicySet(name, { staticPolicies: {} })
    } catch {
      // The next caller detects and replaces a broken engine.
    }
    this.#free.push(name)
  }
}

export class EngineFault extends Error {
  override readonly name = 'EngineFault'

  constructor(cause: unknown) {
    super('the policy engine has failed', { cause })
  }
}

export const engine = new Engine()
