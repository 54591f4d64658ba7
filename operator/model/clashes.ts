const MOST = 16
const LONGEST = 300

/**
 * The clashes of tool names that a gateway's `/status` tells, sorted. The answer comes from a pod and not from us: what
 * has another shape is passed over, and of many the first are enough.
 */
export function clashesIn(status: unknown): readonly string[] {
  const { problems } = (status ?? {}) as { readonly problems?: unknown }
  if (!Array.isArray(problems)) return []
  const messages = problems.flatMap((problem: unknown) => {
    const { code, message } = (problem ?? {}) as { readonly code?: unknown; readonly message?: unknown }
    return code === 'AggregationConflict' && typeof message === 'string' ? [message.slice(0, LONGEST)] : []
  })
  return [...new Set(messages)].sort().slice(0, MOST)
}
