/** What a process says to systemd when a unit with `Type=notify` started it. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ServiceManager } from '../src/service-manager.ts'
import { temporaryDirectory } from './support/directories.ts'
import { NotifySocket } from './support/notify-socket.ts'
import { BrokerServer } from './support/broker.ts'
import { eventually } from './support/waiting.ts'

describe('systemd', () => {
  for (const kind of ['a path', 'an abstract name']) {
    it(`is told of the start, of files read again, of its watchdog and of the end, at ${kind}`, async () => {
      const directory = temporaryDirectory()
      const name = kind === 'a path' ? `${directory}/notify` : `@trilog-test-${process.pid}`
      const systemd = new NotifySocket(name)
      const server = await BrokerServer.start({ env: { NOTIFY_SOCKET: name, WATCHDOG_USEC: '100000' } })
      await eventually(() => systemd.received().filter((each) => each === 'WATCHDOG=1').length > 2)
      const said = (): readonly string[] => systemd.received().filter((each) => each !== 'WATCHDOG=1')
      assert.deepEqual(said(), ['READY=1'])

      server.signal('SIGHUP')
      await eventually(() => said().length === 3)
      assert.match(said()[1]!, /^RELOADING=1\nMONOTONIC_USEC=\d+$/)
      assert.equal(said()[2], 'READY=1')

      await server.stop()
      assert.deepEqual(said().slice(3), ['STOPPING=1'])
      systemd.close()
    })
  }

  it('is not told of a reload before the start is over, and never of a watchdog that is for another process', () => {
    const name = `${temporaryDirectory()}/notify`
    const systemd = new NotifySocket(name)
    const manager = new ServiceManager(name, {
      env: { WATCHDOG_USEC: '1000', WATCHDOG_PID: '1' },
      pid: 2,
      monotonicUs: () => 7n,
      every: () => assert.fail('nothing is said again and again'),
      onFailure: assert.fail,
    })
    let reads = 0
    manager.reload(() => reads++)
    assert.deepEqual([reads, systemd.received()], [1, []])
    manager.ready()
    manager.reload(() => reads++)
    assert.equal(reads, 2)
    assert.deepEqual(systemd.received(), ['READY=1', 'RELOADING=1\nMONOTONIC_USEC=7', 'READY=1'])
    systemd.close()
  })

  it('that is gone keeps nothing from running: the failure is told once', () => {
    const failures: string[] = []
    const world = {
      env: {},
      pid: 1,
      monotonicUs: () => 0n,
      every: () => {},
      onFailure: (code: string) => failures.push(code),
    }
    const manager = new ServiceManager(`${temporaryDirectory()}/nobody`, world)
    manager.ready()
    manager.stopping()
    assert.deepEqual(failures, ['ENOENT'])
    new ServiceManager(`/${'n'.repeat(108)}`, world).ready()
    assert.deepEqual(failures, ['ENOENT', 'ENAMETOOLONG'])
  })
})
