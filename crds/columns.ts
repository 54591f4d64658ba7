import type { Column } from './define.ts'

/** Printer columns that several kinds share. */
export const ready: Column = {
  name: 'Ready',
  type: 'string',
  jsonPath: '.status.conditions[?(@.type=="Ready")].status',
  description: 'Whether everything is in order.',
}
export const reason: Column = {
  name: 'Reason',
  type: 'string',
  jsonPath: '.status.conditions[?(@.type=="Ready")].reason',
  description: 'Reason of the condition Ready.',
  priority: 1,
}
export const phase: Column = { name: 'Phase', type: 'string', jsonPath: '.status.phase' }
export const url: Column = { name: 'URL', type: 'string', jsonPath: '.status.url' }
export const age: Column = { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' }
export const users: Column = {
  name: 'Users',
  type: 'integer',
  jsonPath: '.status.referencingWorkloadCount',
  description: 'Number of objects that refer to it.',
}
