/** What policies have been asked of: the names are those of the actions. */
export type JudgedAction = 'call_tool' | 'get_prompt' | 'read_resource'

interface Decided {
  allowed: number
  denied: number
}

/** How often policies have allowed and denied what callers asked for. */
export class Decisions {
  readonly counts: Readonly<Record<JudgedAction, Decided>> = {
    call_tool: { allowed: 0, denied: 0 },
    get_prompt: { allowed: 0, denied: 0 },
    read_resource: { allowed: 0, denied: 0 },
  }

  /** Counts a decision, which it gives back. */
  count(action: JudgedAction, isAllowed: boolean): boolean {
    const decided = this.counts[action]
    if (isAllowed) decided.allowed++
    else decided.denied++
    return isAllowed
  }
}
