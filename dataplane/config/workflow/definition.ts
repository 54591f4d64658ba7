import type { Static } from 'typebox'
import { workflows } from '../../../crds/settings/gateway/workflow.ts'

export const compositeTools = workflows('gateway')

export type Definition = Static<typeof compositeTools>[number]
export type StepDefinition = Definition['steps'][number]
export type SimpleDefinition = NonNullable<StepDefinition['step']>
