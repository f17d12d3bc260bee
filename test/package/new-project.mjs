import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from './run.mjs';

/** What `nest new` makes, as far as it matters here: Nest 11 with its TypeScript settings, in a strict project. */
const packageJson = {
  name: 'claims',
  private: true,
  dependencies: {
    '@nestjs/common': '^11.0.1',
    '@nestjs/core': '^11.0.1',
    '@nestjs/platform-express': '^11.0.1',
    'reflect-metadata': '^0.2.2',
    rxjs: '^7.8.1',
  },
  devDependencies: { '@types/node': '^22.10.7', typescript: '^5.7.3' },
};
const tsconfig = {
  compilerOptions: {
    module: 'nodenext',
    moduleResolution: 'nodenext',
    resolvePackageJsonExports: true,
    esModuleInterop: true,
    isolatedModules: true,
    declaration: true,
    removeComments: true,
    emitDecoratorMetadata: true,
    experimentalDecorators: true,
    allowSyntheticDefaultImports: true,
    target: 'ES2023',
    sourceMap: true,
    outDir: './dist',
    strict: true,
    skipLibCheck: true,
  },
  include: ['src'],
};
const main = `import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module';

async function bootstrap() {
  const app = await NestFactory.create(AppModule);
  app.enableShutdownHooks();
  await app.listen(process.env.PORT ?? 3000);
}
void bootstrap();
`;

/** An empty project in that folder, with the package and what README tells to install beside it. */
export async function newProject(folder, tarball, packages, appModule) {
  await mkdir(join(folder, 'src'), { recursive: true });
  await writeFile(join(folder, 'package.json'), JSON.stringify(packageJson));
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(tsconfig));
  await writeFile(join(folder, 'src/main.ts'), main);
  await writeFile(join(folder, 'src/app.module.ts'), appModule);
  const flags = ['--prefer-offline', '--no-audit', '--no-fund', '--loglevel', 'error'];
  await run('npm', ['install', ...flags, tarball, ...packages], { cwd: folder });
}

export const compile = (folder, ...options) =>
  run(process.execPath, ['node_modules/typescript/bin/tsc', ...options], { cwd: folder });

/** What TypeScript says about the package's own declarations when it checks them too, which few projects let it do. */
export async function complaintsAboutDeclarations(folder) {
  const options = ['--noEmit', '--skipLibCheck', 'false'];
  const output = await run(process.execPath, ['node_modules/typescript/bin/tsc', ...options], {
    cwd: folder,
  }).then(
    () => '',
    (error) => error.message,
  );
  return output.split('\n').filter((line) => line.startsWith('node_modules/nestjs-inbox-outbox/'));
}
