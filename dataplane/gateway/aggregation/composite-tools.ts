import { isObject, memoize } from '../../../crds/settings/json.ts'
import type { GatewayConfig } from '../../config/gateway.ts'
import { compileWorkflow } from '../../config/workflow/compile.ts'
import type { Workflow } from '../../config/workflow/compiled.ts'
import { memberText } from '../mcp/json.ts'
import type { Route } from './shape.ts'

type Definitions = NonNullable<GatewayConfig['compositeTools']>

/** A tool that steps of workflows may call, whether or not clients see it. */
export interface StepTool {
  /** The name under which it is, or would be, shown. Policies use this name. */
  readonly name: string
  /** JSON text of the tool. */
  readonly text: string
  readonly route: Route
}

/** A composite tool as clients see it. */
export interface CompositeTool {
  readonly workflow: Workflow
  /** JSON text of the tool. */
  readonly text: string
}

export interface CompositeTools {
  readonly composites: ReadonlyMap<string, CompositeTool>
  /** The reasons why composite tools are not shown, or can't run completely. */
  readonly compositeProblems: readonly string[]
}

/** Returns the composite tools of a configuration, parsed once. */
const readWorkflows = memoize((definitions: Definitions): readonly Workflow[] =>
  definitions.map((definition) => compileWorkflow(definition).workflow).sort((a, b) => (a.name < b.name ? -1 : 1)),
)

/**
 * Returns the composite tools to show. A composite tool is not shown if a backend's tool has its name, if it declares
 * weaker hints than its tools require, or if it is withheld.
 */
export function compositeTools(
  definitions: Definitions | undefined,
  shown: ReadonlyMap<string, Route>,
  stepTools: ReadonlyMap<string, StepTool>,
  isWithheld: (workflow: Workflow) => boolean = () => false,
): CompositeTools {
  const composites = new Map<string, CompositeTool>()
  const problems: string[] = []
  for (const workflow of definitions === undefined ? [] : readWorkflows(definitions)) {
    const { name, tools } = workflow
    if (isWithheld(workflow)) continue
    const holder = shown.get(name)
    if (holder !== undefined) {
      problems.push(`${name} is not shown: ${holder.backend} has a tool of this name`)
      continue
    }
    for (const tool of tools)
      if (!stepTools.has(tool)) problems.push(`${name} calls ${tool}, which no backend has at the moment`)
    const floor = computeFloor(tools.map((tool) => stepTools.get(tool)))
    const less = contradictions(workflow, floor)
    if (less.length > 0) problems.push(`${name} is not shown: ${less.join(', ')} is contradicted by the tools it calls`)
    else composites.set(name, { workflow, text: buildText(workflow, floor) })
  }
  return { composites, compositeProblems: problems }
}

/**
 * The hints that result from those of the tools. A tool without hints counts as the most dangerous (MCP,
 * ToolAnnotations).
 */
type Floor = Readonly<Record<'readOnlyHint' | 'destructiveHint' | 'openWorldHint', boolean>>

function computeFloor(tools: readonly (StepTool | undefined)[]): Floor {
  const hints = tools.map((tool) => readAnnotations(tool))
  const readOnly = (one: Readonly<Record<string, unknown>>) => one['readOnlyHint'] === true
  return {
    readOnlyHint: hints.every(readOnly),
    destructiveHint: hints.some((one) => !readOnly(one) && one['destructiveHint'] !== false),
    openWorldHint: hints.some((one) => one['openWorldHint'] !== false),
  }
}

function readAnnotations(tool: StepTool | undefined): Readonly<Record<string, unknown>> {
  const text = tool === undefined ? undefined : memberText(tool.text, 'annotations')
  const annotations: unknown = text === undefined ? undefined : JSON.parse(text)
  return isObject(annotations) ? annotations : {}
}

const contradictions = ({ annotations }: Workflow, floor: Floor): readonly string[] => [
  ...(annotations.readOnlyHint === true && !floor.readOnlyHint ? ['readOnlyHint: true'] : []),
  ...(annotations.destructiveHint === false && floor.destructiveHint ? ['destructiveHint: false'] : []),
  ...(annotations.openWorldHint === false && floor.openWorldHint ? ['openWorldHint: false'] : []),
]

const buildText = ({ name, description, parameters, outputSchema, annotations }: Workflow, floor: Floor): string =>
  JSON.stringify({
    name,
    title: annotations.title,
    description,
    inputSchema: parameters,
    outputSchema,
    annotations: { ...floor, ...annotations },
  })
