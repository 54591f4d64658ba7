import { memoize } from '../../../crds/settings/json.ts'
import type { GatewayConfig } from '../../config/gateway.ts'
import { compileGlob } from '../../config/glob.ts'
import type { Caller } from '../../identity/caller.ts'
import { hasScopes, statedScopes } from '../../identity/scopes.ts'
import type { Explanation } from '../../policy/index.ts'
import { growingLru } from '../../server/growing-lru.ts'

/** The most cached scopes of tool names, and of callers. */
const MOST_KEPT = 10_000
const NOTHING: ReadonlySet<string> = new Set()

/** The scopes for one call: the needed ones, and those that the caller's token has and lacks. */
type ScopesOfCall = NonNullable<Explanation['scopes']>

/** The scopes that calls of single tools need (`incomingAuth.scopeRules`), and the scopes that include others. */
export class ScopeRules {
  readonly #rules: readonly { readonly scopes: readonly string[]; readonly matches: (tool: string) => boolean }[]
  readonly #implied: readonly { readonly scope: string; readonly implies: readonly string[] }[]
  readonly #audience: string
  readonly #needed = growingLru<readonly string[]>(MOST_KEPT)

  constructor({ oidc, scopeRules = [], scopeImplies = [] }: GatewayConfig['incomingAuth'], audience: string) {
    this.#rules = scopeRules.map(({ tools, scopes }) => {
      const globs = tools.map(compileGlob)
      return { scopes, matches: (tool) => globs.some((matches) => matches(tool)) }
    })
    this.#implied = scopeImplies
    this.#audience = oidc?.audience ?? audience
  }

  /** Returns the scopes that a call of these tools needs, each once. `tools`: names as clients see them. */
  neededFor(tools: readonly string[]): readonly string[] {
    if (tools.length === 1) return this.#neededForOne(tools[0] as string)
    return [...new Set(tools.flatMap((tool) => this.#neededForOne(tool)))]
  }

  #neededForOne(tool: string): readonly string[] {
    let needed = this.#needed.get(tool)
    if (needed === undefined) {
      needed = [...new Set(this.#rules.flatMap(({ scopes, matches }) => (matches(tool) ? scopes : [])))]
      this.#needed.set(tool, needed)
    }
    return needed
  }

  /** Returns the scopes for a call of these tools; undefined if the caller's token has all needed ones. */
  lacking(caller: Caller, tools: readonly string[]): ScopesOfCall | undefined {
    const needed = this.neededFor(tools)
    if (needed.length === 0 || hasScopes(this.#heldBy(caller), needed, this.#audience)) return undefined
    return this.about(caller, tools)
  }

  about(caller: Caller, tools: readonly string[]): ScopesOfCall {
    const needed = this.neededFor(tools)
    const held = this.#heldBy(caller)
    const missing = needed.filter((scope) => !hasScopes(held, [scope], this.#audience))
    return { needed, held: [...held].filter((scope) => scope !== ''), missing }
  }

  /**
   * Returns the scopes in a token, and those that they include. A token without a scope claim has none. A caller stays
   * one object while its token is known.
   */
  readonly #heldBy = memoize((caller: Caller) =>
    caller.kind === 'anonymous' ? NOTHING : this.#withImplied(statedScopes(caller.claims) ?? NOTHING),
  )

  #withImplied(stated: ReadonlySet<string>): ReadonlySet<string> {
    const all = new Set(stated)
    let left = this.#implied
    for (;;) {
      const now = left.filter(({ scope }) => hasScopes(all, [scope], this.#audience))
      if (now.length === 0) return all
      left = left.filter((one) => !now.includes(one))
      for (const { implies } of now) for (const scope of implies) all.add(scope)
    }
  }
}

/**
 * Adds the result for the scopes of a call to an explanation. A call that lacks a scope is not allowed, whatever the
 * policies say. `explanation`: undefined if there are no policies.
 */
export function explainScopes(
  rules: ScopeRules | undefined,
  { caller, tools }: { readonly caller: Caller; readonly tools: readonly string[] },
  explanation: Explanation = { allowed: true, reason: 'no policies are in force', policies: [], errors: [] },
): Explanation {
  const scopes = rules?.about(caller, tools)
  if (scopes === undefined || scopes.needed.length === 0) return explanation
  if (!explanation.allowed || scopes.missing.length === 0) return { ...explanation, scopes }
  const which = scopes.missing.length === 1 ? 'the scope' : 'the scopes'
  return { ...explanation, allowed: false, reason: `the token lacks ${which} ${scopes.missing.join(', ')}`, scopes }
}

/**
 * Returns the rules of a configuration; undefined if it has none. `audience`: the audience of tokens if none is
 * configured.
 */
export const readScopeRules = ({ incomingAuth }: GatewayConfig, audience: string): ScopeRules | undefined =>
  incomingAuth.scopeRules === undefined ? undefined : new ScopeRules(incomingAuth, audience)
