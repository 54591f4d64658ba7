import { checkRegistry } from '../check/registry.ts'
import { type RegistryConfig, registryConfigSchema } from '../registry.ts'
import { configParser } from './parse.ts'

export const parseRegistry: (text: string, file?: string) => RegistryConfig = configParser(
  registryConfigSchema,
  checkRegistry,
)
