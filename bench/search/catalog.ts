import { readFileSync } from 'node:fs'
import { parse } from 'yaml'

export interface CatalogTool {
  readonly name: string
  readonly description: string
  readonly inputSchema: object
}

interface Entry {
  readonly name?: unknown
  readonly description?: unknown
  readonly packages?: readonly Record<string, unknown>[]
}

const sample = new URL('../../samples/quickstart/catalog.yaml', import.meta.url)

/**
 * Makes a tool of each server in catalogs of the registry's format (today's or that of 2025-05), with the settings of
 * its packages as arguments. Without files: the catalog of samples/quickstart.
 */
export function catalogTools(files: readonly string[], most: number): readonly CatalogTool[] {
  const texts =
    files.length === 0
      ? [parse(readFileSync(sample, 'utf8')).data['registry.json'] as string]
      : files.map((file) => readFileSync(file, 'utf8'))
  const tools = new Map<string, CatalogTool>()
  for (const entry of texts.flatMap((text) => findEntries(JSON.parse(text)))) {
    const tool = buildTool(entry)
    if (tool !== undefined && !tools.has(tool.name)) tools.set(tool.name, tool)
  }
  return [...tools.values()].slice(0, most)
}

type Listed = { server?: Entry } & Entry

function findEntries(catalog: Listed[] | { data?: { servers?: Listed[] }; servers?: Listed[] }): readonly Entry[] {
  const list = Array.isArray(catalog) ? catalog : (catalog.data?.servers ?? catalog.servers ?? [])
  return list.map((entry) => entry.server ?? entry)
}

function buildTool({ name, description, packages = [] }: Entry): CatalogTool | undefined {
  if (typeof name !== 'string' || typeof description !== 'string' || description.length < 20) return undefined
  const settings = packages.flatMap(
    (one) =>
      (one['environment_variables'] ?? one['environmentVariables'] ?? []) as { name: string; description: string }[],
  )
  const properties = settings.map(({ name, description }) => [name, { type: 'string', description }] as const)
  return {
    name: name.replace(/[^A-Za-z0-9_-]+/g, '_').slice(0, 60),
    description,
    inputSchema: { type: 'object', properties: Object.fromEntries(properties) },
  }
}
