import { Column, Entity, PrimaryGeneratedColumn } from 'typeorm';

@Entity('reports')
export class Report {
  @PrimaryGeneratedColumn()
  id!: number;

  @Column({ type: 'timestamptz', name: 'made_at', default: () => 'clock_timestamp()' })
  madeAt!: Date;

  @Column({ type: 'int', name: 'made_by' })
  madeBy!: number;

  /** Of the lock under which it was made: a later report has a higher one. */
  @Column({ type: 'bigint' })
  fence!: string;
}
