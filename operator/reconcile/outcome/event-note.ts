import { withoutUrlSecrets } from '../../../dataplane/config/url-secrets.ts'
import type { PlannedEvent } from './plan.ts'

/** Longest note that the API takes (events.k8s.io/v1). */
const NOTE_LIMIT = 1024

/** What an Event tells, without what keys stand in. */
export const eventNote = ({ message }: PlannedEvent): string => withoutUrlSecrets(message).slice(0, NOTE_LIMIT)
