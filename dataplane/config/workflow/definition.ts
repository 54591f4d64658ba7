import type { Static } from 'typebox'
import { workflows } from '../../../crds/settings/gateway/workflow.ts'

/** Composite tools as they are configured: the schema is that of the custom resources. */
export const compositeTools = workflows('gateway')

export type Definition = Static<typeof compositeTools>[number]
export type StepDefinition = Definition['steps'][number]
export type SimpleDefinition = NonNullable<StepDefinition['step']>
