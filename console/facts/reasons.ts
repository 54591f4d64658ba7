import { fileReasons, reasons as operatorReasons } from '../../operator/model/reasons.ts'

/** The text for a reason of a condition: its meaning and what to do. */
export interface ReasonText {
  readonly meaning: string
  readonly next: string | null
}

const ofOperator = Object.entries({ ...fileReasons, ...operatorReasons }).map(
  ([reason, { means, next }]): [string, ReasonText] => [reason, { meaning: means, next: next ?? null }],
)

/** The texts of the conditions' reasons and of the server health that gateways report. The help pages list them all. */
export const reasons: Readonly<Record<string, ReasonText>> = {
  ...Object.fromEntries(ofOperator),
  unhealthy: { meaning: 'The server does not answer.', next: 'Check that it runs, its address and its port.' },
  degraded: {
    meaning: 'The server answers slowly, or its last request failed.',
    next: 'Look at the last error; it may pass.',
  },
  unauthenticated: {
    meaning: 'The server refuses the gateway’s credential.',
    next: 'Check the external auth configuration of the server.',
  },
}

/** Returns the text of a reason; undefined for an unknown one. */
export const reasonText = (reason: string): ReasonText | undefined =>
  Object.hasOwn(reasons, reason) ? reasons[reason] : undefined

/** Returns the path of a reason in the help pages. */
export const reasonHelp = (reason: string): string =>
  Object.hasOwn(reasons, reason) ? `/help/conditions#${reason}` : '/help/conditions'
