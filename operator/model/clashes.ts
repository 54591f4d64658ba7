import { isReportedProblem, isReportedStatus } from '../../dataplane/config/status.ts'

const MOST = 16
const LONGEST = 300

/**
 * The clashes of tool names that a gateway's `/status` tells, sorted. The answer comes from a pod and not from us: what
 * has another shape is passed over, and of many the first are enough.
 */
export function clashesIn(status: unknown): readonly string[] {
  const { problems = [] } = isReportedStatus(status) ? status : {}
  const messages = problems.flatMap((problem) =>
    isReportedProblem(problem) && problem.code === 'AggregationConflict' ? [problem.message.slice(0, LONGEST)] : [],
  )
  return [...new Set(messages)].sort().slice(0, MOST)
}
