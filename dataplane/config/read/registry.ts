import { checkRegistry } from '../check/registry.ts'
import { type RegistryConfig, registryConfigSchema } from '../registry.ts'
import { configParser } from './parse.ts'

/** Parses a registry's configuration and collects all its findings. */
export const parseRegistry: (text: string, file?: string) => RegistryConfig = configParser(
  registryConfigSchema,
  checkRegistry,
)
