import { startPostgres } from '../../../support/network/postgres.ts'
import { authorizationMatrix } from './matrix.ts'

const server = await startPostgres()
authorizationMatrix(
  'the matrix of roles and claims holds on PostgreSQL',
  async () => ({ database: { url: await server.database('matrix'), sslMode: 'disable' } }),
  () => server.close(),
)
