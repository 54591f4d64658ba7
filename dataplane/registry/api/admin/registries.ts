import type { Api } from '../request/context.ts'
import type { Operation, OperationDescription } from '../request/operation.ts'
import { newRegistryBody, registriesAnswer, registryAnswer, registryBody, registryName } from '../schemas/admin.ts'
import {
  createRegistry,
  createRegistryApi,
  deleteRegistry,
  getRegistry,
  listRegistries,
  putRegistry,
} from './registry-handlers.ts'

const common = { tag: 'registries', role: 'manageRegistries' } as const
const ofOne = { ...common, path: '/v1/registries/{registry}', parameters: { registry: registryName } } as const

const descriptions = {
  list: {
    ...common,
    id: 'listRegistries',
    method: 'get',
    path: '/v1/registries',
    summary: 'Lists the registries that the caller may manage.',
    answers: { 200: { description: 'The registries, by name.', schema: registriesAnswer } },
    errors: [],
  },
  create: {
    ...common,
    id: 'createRegistry',
    method: 'post',
    path: '/v1/registries',
    summary: 'Creates a registry.',
    body: newRegistryBody,
    answers: { 201: { description: 'Created.', schema: registryAnswer } },
    errors: ['claims_not_subset', 'conflict'],
  },
  get: {
    ...ofOne,
    id: 'getRegistry',
    method: 'get',
    summary: 'Gets a registry.',
    answers: { 200: { description: 'The registry.', schema: registryAnswer } },
    errors: ['not_found'],
  },
  put: {
    ...ofOne,
    id: 'putRegistry',
    method: 'put',
    summary: 'Creates a registry, or replaces its sources and claims.',
    body: registryBody,
    answers: {
      200: { description: 'Changed.', schema: registryAnswer },
      201: { description: 'Created.', schema: registryAnswer },
    },
    errors: ['not_found', 'claims_not_subset', 'read_only', 'conflict'],
  },
  delete: {
    ...ofOne,
    id: 'deleteRegistry',
    method: 'delete',
    summary: 'Deletes a registry; its sources stay.',
    answers: { 204: { description: 'Deleted.' } },
    errors: ['not_found', 'read_only', 'conflict'],
  },
} as const satisfies Record<string, OperationDescription>

/** Registries: what consumers read under one name. */
export function registryOperations(api: Api): readonly Operation[] {
  const registries = createRegistryApi(api)
  return [
    { ...descriptions.list, handle: (c) => listRegistries(registries, c) },
    { ...descriptions.create, handle: (c) => createRegistry(registries, c) },
    { ...descriptions.get, handle: (c) => getRegistry(registries, c) },
    { ...descriptions.put, handle: (c) => putRegistry(registries, c) },
    { ...descriptions.delete, handle: (c) => deleteRegistry(registries, c) },
  ]
}
