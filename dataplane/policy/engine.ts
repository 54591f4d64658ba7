import { createRequire } from 'node:module'
import type * as cedar from '@cedar-policy/cedar-wasm/nodejs'

type Cedar = typeof cedar

const PACKAGE = '@cedar-policy/cedar-wasm/nodejs'
const require = createRequire(import.meta.url)

/**
 * The Cedar engine (WebAssembly), loaded when the first policy is compiled: a process without policies has none of its
 * 60 MB. It is a process-wide resource, since compiled policy sets live in its memory, under names.
 *
 * A trap (a stack overflow, for one) leaves that memory undefined, and every later answer with it. So the engine is
 * thrown away and loaded anew, and policy sets are compiled again when they are asked next.
 */
class Engine {
  #cedar: Cedar | undefined
  /** Changes when compiled policy sets are lost. */
  generation = 0
  #sets = 0
  readonly #free: string[] = []
  /** The engine has no call that drops a policy set: its name is used again when nobody can ask by it any more. */
  readonly #collected = new FinalizationRegistry<string>((name) => this.#release(name))

  /** Throws an EngineFault where the engine fails, which says nothing about who may do what. */
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

  /** A name for a policy set that lives as long as `owner`. */
  nameFor(owner: object): string {
    const name = this.#free.pop() ?? `set-${this.#sets++}`
    this.#collected.register(owner, name)
    return name
  }

  #release(name: string): void {
    try {
      this.#cedar?.preparsePolicySet(name, { staticPolicies: {} })
    } catch {
      // An engine that is broken is found out, and replaced, by whoever asks it next.
    }
    this.#free.push(name)
  }
}

/** The engine itself has failed. */
export class EngineFault extends Error {
  override readonly name = 'EngineFault'

  constructor(cause: unknown) {
    super('the policy engine has failed', { cause })
  }
}

export const engine = new Engine()
