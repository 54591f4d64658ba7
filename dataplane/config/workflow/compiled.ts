import type { ToolOverride } from '../../../crds/settings/gateway/aggregation.ts'
import type { JsonSchema } from './json-schema.ts'
import type { Template } from './template.ts'
import type { Values } from './values.ts'

/** Compiled composite tools. Times are in milliseconds. */

export interface OnError {
  readonly action: 'abort' | 'continue' | 'retry'
  readonly retries: number
  readonly delayMs: number
}

export type OnAnswer = 'abort' | 'continue' | 'skip_remaining'

interface Common {
  readonly id: string
  readonly condition: Template | undefined
  readonly timeoutMs: number
  readonly onError: OnError
  readonly defaultResults: JsonSchema | undefined
}

export interface ToolStep extends Common {
  readonly type: 'tool'
  /** The name that clients see, or `<workload>.<its own name>`. */
  readonly tool: string
  readonly arguments: Values
}

export interface ElicitationStep extends Common {
  readonly type: 'elicitation'
  readonly message: Template
  readonly schema: JsonSchema
  readonly onDecline: OnAnswer
  readonly onCancel: OnAnswer
}

export type SimpleStep = ToolStep | ElicitationStep

export interface ForEachStep extends Common {
  readonly type: 'forEach'
  readonly collection: Template
  readonly itemName: string
  readonly mostItems: number
  readonly parallel: number
  readonly step: SimpleStep
}

export type Step = (SimpleStep | ForEachStep) & {
  readonly dependsOn: readonly string[]
  readonly reads: ReadonlySet<string>
}

export interface OutputProperty {
  readonly type: 'string' | 'integer' | 'number' | 'boolean' | 'object' | 'array'
  readonly value: Template | undefined
  readonly fallback: unknown
  readonly properties: Readonly<Record<string, OutputProperty>> | undefined
}

export interface Output {
  readonly properties: Readonly<Record<string, OutputProperty>>
  readonly required: readonly string[]
  readonly reads: ReadonlySet<string>
}

export interface Workflow {
  readonly name: string
  readonly description: string | undefined
  readonly parameters: JsonSchema
  readonly annotations: NonNullable<ToolOverride['annotations']>
  readonly timeoutMs: number
  readonly steps: readonly Step[]
  readonly output: Output | undefined
  /** JSON schema of the structured result; undefined if the result is that of the last step. */
  readonly outputSchema: JsonSchema | undefined
  readonly tools: readonly string[]
  /** Equal for equal definitions. */
  readonly digest: string
  /** Characters of the definition as JSON. */
  readonly size: number
}
