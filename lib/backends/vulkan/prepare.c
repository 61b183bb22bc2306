// SPDX-License-Identifier: MIT
/*
 * Preparation by a compute shader. The device has one shader, made for its first program.
 * The tables of a program are a buffer in the host's memory. A run is one submit, which
 * acquires the imports, computes and releases them; its commands and its descriptors are
 * kept for the next run with the same imports, offsets and strides.
 */
#include <errno.h>
#include <string.h>

#include "../../prepare/prepare.h"
#include "../../prepare/program.h"
#include "vulkan.h"

#include "prepare.spv.h"

/*
 * The number of combinations of imports that are kept; more if more of them run at once. A run
 * counts until a later submit finds that it has ended: vulkan_job_get().
 */
#define KEPT 16

enum { SOURCES = 3, OUT = SOURCES, TABLES, BINDINGS };
/* prepare.comp */
enum words { ROWS, PIXELS, APART };

struct push {
	uint32_t at[SOURCES], pitches[SOURCES];
	uint32_t to, step_x, step_y, step_channel;
	uint32_t words;
};

/* All values that a run's commands depend on. An import's serial is never reused. */
struct key {
	uint64_t serials[OUT + 1];
	VkDescriptorBufferInfo buffers[OUT + 1];
	struct push push;
};

struct vulkan_binding {
	struct vulkan_program *program;
	struct vulkan_binding *next;	/* the one used last is the first */
	struct key key;
	VkDescriptorPool pool;		/* of the sets, one of each run */
	VkDescriptorSet set;
	VkCommandBuffer cmd;
	uint32_t running;		/* submits */
};

/* A program, or several programs whose tables are in one buffer, for one submit. */
struct vulkan_program {
	struct vulkan_device *dev;
	uint32_t users;			/* the plan, and running submits */
	uint32_t groups[2];
	uint32_t width, height, nout, value_bits;
	uint64_t align, max_range;	/* of a descriptor */
	VkBuffer tables;
	VkDeviceMemory memory;
	struct vulkan_binding *bindings;
	uint32_t nbindings;
};

/* ---- the shader */

void vulkan_shader_free(struct vulkan_device *dev)
{
	struct vulkan_api *vk = &dev->instance.vk;
	struct vulkan_shader *s = &dev->shader;

	if (!s->set_layout)
		return;
	vk->DestroyPipeline(dev->handle, s->pipeline, NULL);
	vk->DestroyPipelineLayout(dev->handle, s->layout, NULL);
	vk->DestroyDescriptorSetLayout(dev->handle, s->set_layout, NULL);
	*s = (struct vulkan_shader){ 0 };
}

static int make_pipeline(struct vulkan_device *dev, struct vulkan_shader *s)
{
	struct vulkan_api *vk = &dev->instance.vk;
	VkShaderModuleCreateInfo code = {
		.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
		.codeSize = sizeof(prepare_spv),
		.pCode = prepare_spv,
	};
	VkComputePipelineCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
		.stage = {
			.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
			.stage = VK_SHADER_STAGE_COMPUTE_BIT,
			.pName = "main",
		},
		.layout = s->layout,
	};
	int ret = VULKAN_CALL(vk, CreateShaderModule, dev->handle, &code, NULL,
			      &info.stage.module);

	if (ret)
		return ret;
	ret = VULKAN_CALL(vk, CreateComputePipelines, dev->handle, VK_NULL_HANDLE, 1, &info, NULL,
			  &s->pipeline);
	vk->DestroyShaderModule(dev->handle, info.stage.module, NULL);
	return ret;
}

/* Under dev->lock, once for a device. */
static int make_shader(struct vulkan_device *dev)
{
	struct vulkan_api *vk = &dev->instance.vk;
	struct vulkan_shader *s = &dev->shader;
	VkDescriptorSetLayoutBinding bindings[BINDINGS];
	VkDescriptorSetLayoutCreateInfo set = {
		.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
		.bindingCount = BINDINGS,
		.pBindings = bindings,
	};
	VkPushConstantRange range = {
		.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
		.size = sizeof(struct push),
	};
	VkPipelineLayoutCreateInfo layout = {
		.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
		.setLayoutCount = 1,
		.pSetLayouts = &s->set_layout,
		.pushConstantRangeCount = 1,
		.pPushConstantRanges = &range,
	};
	int ret;

	if (s->set_layout)
		return 0;
	for (uint32_t i = 0; i < BINDINGS; i++)
		bindings[i] = (VkDescriptorSetLayoutBinding){
			.binding = i,
			.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
			.descriptorCount = 1,
			.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
		};
	ret = VULKAN_CALL(vk, CreateDescriptorSetLayout, dev->handle, &set, NULL,
			  &s->set_layout);
	if (ret)
		return ret;
	ret = VULKAN_CALL(vk, CreatePipelineLayout, dev->handle, &layout, NULL, &s->layout);
	if (!ret)
		ret = make_pipeline(dev, s);
	if (ret)
		vulkan_shader_free(dev);
	return ret;
}

/* ---- programs */

/* Under dev->lock. */
static void binding_free(struct vulkan_program *g, struct vulkan_binding *b)
{
	struct vulkan_api *vk = &g->dev->instance.vk;

	if (b->cmd)
		vk->FreeCommandBuffers(g->dev->handle, g->dev->pool, 1, &b->cmd);
	vk->DestroyDescriptorPool(g->dev->handle, b->pool, NULL);
	free(b);
}

/* Under dev->lock. */
static void program_put(struct vulkan_program *g)
{
	struct vulkan_api *vk = &g->dev->instance.vk;
	struct vulkan_binding *b;

	if (--g->users)
		return;
	while ((b = g->bindings)) {
		g->bindings = b->next;
		binding_free(g, b);
	}
	vk->DestroyBuffer(g->dev->handle, g->tables, NULL);
	vk->FreeMemory(g->dev->handle, g->memory, NULL);
	free(g);
}

void vulkan_binding_put(struct vulkan_binding *b)
{
	b->running--;
	program_put(b->program);
}

void vulkan_program_drop(void *program)
{
	struct vulkan_program *g = program;
	struct vulkan_device *dev = g->dev;

	pthread_mutex_lock(&dev->lock);
	program_put(g);
	pthread_mutex_unlock(&dev->lock);
}

static int check_limits(struct vulkan_device *dev, uint64_t bytes, struct vulkan_program *g)
{
	const struct vulkan_physical *p = &dev->physical;
	struct vulkan_api *vk = &dev->instance.vk;
	VkQueueFamilyProperties families[32];
	uint32_t n = ARRAY_SIZE(families);
	VkPhysicalDeviceProperties props;

	vk->GetPhysicalDeviceProperties(p->handle, &props);
	vk->GetPhysicalDeviceQueueFamilyProperties(p->handle, &n, families);
	g->align = props.limits.minStorageBufferOffsetAlignment;
	if (g->align < 4)
		g->align = 4;
	g->max_range = props.limits.maxStorageBufferRange;
	if (!vk->CreateComputePipelines || p->family >= n ||
	    !(families[p->family].queueFlags & VK_QUEUE_COMPUTE_BIT))
		return fail(-EOPNOTSUPP, "vulkan: the queue of %s does not compute",
			    p->info.description);
	if (props.limits.maxPerStageDescriptorStorageBuffers < BINDINGS || bytes > g->max_range)
		return fail(-EOPNOTSUPP, "vulkan: a shader of %s has %u buffers of %u bytes, "
			    "%u of %llu are needed", p->info.description,
			    props.limits.maxPerStageDescriptorStorageBuffers,
			    props.limits.maxStorageBufferRange, BINDINGS,
			    (unsigned long long)bytes);
	return 0;
}

/* Every device has memory that is coherent for the host. */
static uint32_t coherent_type(struct vulkan_device *dev, uint32_t types)
{
	const uint32_t want = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
			      VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
	VkPhysicalDeviceMemoryProperties props;
	uint32_t i = 0;

	dev->instance.vk.GetPhysicalDeviceMemoryProperties(dev->physical.handle, &props);
	while (i + 1 < props.memoryTypeCount &&
	       (!(types >> i & 1) || (props.memoryTypes[i].propertyFlags & want) != want))
		i++;
	return i;
}

/* *at is the address at which the host writes the tables. */
static int make_tables(struct vulkan_program *g, size_t bytes, void **at)
{
	struct vulkan_device *dev = g->dev;
	struct vulkan_api *vk = &dev->instance.vk;
	VkBufferCreateInfo buffer = {
		.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
		.size = bytes,
		.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT,
	};
	VkMemoryAllocateInfo memory = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
	};
	VkMemoryRequirements needs;
	bool alone = false;
	int ret = VULKAN_CALL(vk, CreateBuffer, dev->handle, &buffer, NULL, &g->tables);

	if (ret)
		return ret;
	needs = vulkan_needs(dev, g->tables, VK_NULL_HANDLE, &alone);
	memory.allocationSize = needs.size;
	memory.memoryTypeIndex = coherent_type(dev, needs.memoryTypeBits &
						    dev->physical.memory_types);
	ret = VULKAN_CALL(vk, AllocateMemory, dev->handle, &memory, NULL, &g->memory);
	if (!ret)
		ret = VULKAN_CALL(vk, BindBufferMemory, dev->handle, g->tables, g->memory, 0);
	if (!ret)
		ret = VULKAN_CALL(vk, MapMemory, dev->handle, g->memory, 0, VK_WHOLE_SIZE, 0, at);
	return ret;
}

static struct vulkan_program *new_program(struct vulkan_device *dev, const struct program *p)
{
	struct vulkan_program *g = sys_calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->dev = dev;
	g->users = 1;
	g->value_bits = p->store <= STORE_I8 ? 8 : p->store == STORE_F32 ? 32 : 16;
	g->width = p->width;
	g->height = p->height;
	g->nout = p->nout;
	g->groups[0] = (p->width * g->value_bits / 32 + 8) / 8;
	g->groups[1] = (p->height + 7) / 8;
	return g;
}

int vulkan_program_load(struct dlbuf_device *base, const struct program *p, size_t bytes,
			void **out)
{
	struct vulkan_device *dev = vulkan_device(base);
	struct vulkan_program *g = new_program(dev, p);
	void *at;
	int ret;

	if (!g)
		return -ENOMEM;
	ret = check_limits(dev, bytes, g);
	if (!ret)
		ret = make_tables(g, bytes, &at);
	if (!ret)
		memcpy(at, p, bytes);
	pthread_mutex_lock(&dev->lock);
	if (!ret)
		ret = make_shader(dev);
	if (ret)
		program_put(g);
	pthread_mutex_unlock(&dev->lock);
	if (!ret)
		*out = g;
	return ret;
}

/* ---- runs */

/* Binds the words of a part. *at becomes the offset of its first value in the binding. */
static int bind_part(const struct vulkan_program *g, const struct program_part *part,
		     uint64_t *serial, VkDescriptorBufferInfo *info, uint32_t *at)
{
	const struct vulkan_import *vi = vulkan_import(part->imp);
	uint64_t end = (part->high + 3) & ~(uint64_t)3;

	*serial = vi->serial;
	info->buffer = vi->buffer.buffer;
	info->offset = part->low / g->align * g->align;
	info->range = end - info->offset;
	*at = (uint32_t)(part->at - info->offset);
	/* The last word may be beyond a buffer that is not whole words. */
	if (info->range > g->max_range || end > vi->buffer.size)
		return fail(-EOPNOTSUPP, "vulkan: a shader of %s reads and writes %llu bytes at "
			    "most, and whole words; it needs %llu up to %llu of %llu",
			    g->dev->physical.info.description, (unsigned long long)g->max_range,
			    (unsigned long long)info->range, (unsigned long long)end,
			    (unsigned long long)vi->buffer.size);
	return 0;
}

/* The layout of values in words: see prepare.comp. */
static enum words words_of(const struct vulkan_program *g, const struct push *p)
{
	uint32_t value = g->value_bits / 8, group = 4 / value;
	uint32_t odd = (p->to | p->step_y) & 3;

	if (g->height == 1)
		odd = p->to & 3;
	if (odd || g->width % group)
		return APART;
	if ((p->step_x == value || group == 1) && (g->nout == 1 || !(p->step_channel & 3)) &&
	    !(group == 1 && p->step_x & 3))
		return ROWS;
	return p->step_channel == value && p->step_x == g->nout * value ? PIXELS : APART;
}

static int find_key(const struct vulkan_program *g, const struct program_run *run, struct key *k)
{
	int ret = 0;

	/* Keys are compared with memcmp(). */
	memset(k, 0, sizeof(*k));
	for (int i = 0; i < SOURCES && !ret; i++) {
		ret = bind_part(g, &run->sources[i], &k->serials[i], &k->buffers[i],
				&k->push.at[i]);
		k->push.pitches[i] = run->pitches[i];
	}
	if (!ret)
		ret = bind_part(g, &run->out, &k->serials[OUT], &k->buffers[OUT], &k->push.to);
	k->push.step_x = run->step_x;
	k->push.step_y = run->step_y;
	k->push.step_channel = run->step_channel;
	k->push.words = words_of(g, &k->push);
	return ret;
}

/* The runs of a submit, which have the brackets of the first, and their sets and constants. */
struct recording {
	const struct vulkan_program *program;
	const struct program_run *run;
	const VkDescriptorSet *sets;
	const struct push *pushes;
	uint32_t n;
};

static void record_run(VkCommandBuffer cmd, uint32_t n, void *data)
{
	const struct recording *r = data;
	struct vulkan_device *dev = r->program->dev;
	struct vulkan_api *vk = &dev->instance.vk;
	struct vulkan_owned list[ARRAY_SIZE(r->run->brackets)];

	(void)n;
	for (uint32_t i = 0; i < r->run->nbrackets; i++)
		list[i] = (struct vulkan_owned){
			vulkan_import(r->run->brackets[i].imp)->buffer.buffer, dev->foreign,
			VK_ACCESS_SHADER_READ_BIT |
			(r->run->brackets[i].access & DLBUF_WRITE ? VK_ACCESS_SHADER_WRITE_BIT : 0),
		};
	vulkan_transfer(dev, cmd, true, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, list,
			r->run->nbrackets, NULL, 0);
	vk->CmdBindPipeline(cmd, VK_PIPELINE_BIND_POINT_COMPUTE, dev->shader.pipeline);
	/* Each run writes other bytes, so there is no barrier between them. */
	for (uint32_t i = 0; i < r->n; i++) {
		vk->CmdBindDescriptorSets(cmd, VK_PIPELINE_BIND_POINT_COMPUTE, dev->shader.layout,
					  0, 1, &r->sets[i], 0, NULL);
		vk->CmdPushConstants(cmd, dev->shader.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
				     sizeof(*r->pushes), &r->pushes[i]);
		vk->CmdDispatch(cmd, r->program->groups[0], r->program->groups[1], 1);
	}
	vulkan_transfer(dev, cmd, false, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, list,
			r->run->nbrackets, NULL, 0);
}

/* Under dev->lock: a new binding, with n sets that have no buffers yet. */
static int new_binding(struct vulkan_program *g, uint32_t n, VkDescriptorSet sets[],
		       struct vulkan_binding **out)
{
	struct vulkan_api *vk = &g->dev->instance.vk;
	const VkDescriptorPoolSize size = { VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, n * BINDINGS };
	VkDescriptorPoolCreateInfo pool = {
		.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
		.maxSets = n,
		.poolSizeCount = 1,
		.pPoolSizes = &size,
	};
	VkDescriptorSetAllocateInfo set = {
		.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
		.descriptorSetCount = 1,
		.pSetLayouts = &g->dev->shader.set_layout,
	};
	struct vulkan_binding *b = sys_calloc(1, sizeof(*b));
	int ret;

	if (!b)
		return -ENOMEM;
	b->program = g;
	ret = VULKAN_CALL(vk, CreateDescriptorPool, g->dev->handle, &pool, NULL, &b->pool);
	set.descriptorPool = b->pool;
	for (uint32_t i = 0; i < n && !ret; i++)
		ret = VULKAN_CALL(vk, AllocateDescriptorSets, g->dev->handle, &set, &sets[i]);
	if (ret) {
		binding_free(g, b);
		return ret;
	}
	b->set = sets[0];
	g->nbindings++;
	*out = b;
	return 0;
}

/* The tables begin at `from`. */
static void write_set(const struct vulkan_program *g, VkDescriptorSet set, const struct key *key,
		      uint64_t from, uint64_t bytes)
{
	const VkDescriptorBufferInfo tables = { g->tables, from, bytes };
	VkWriteDescriptorSet writes[BINDINGS];

	for (uint32_t i = 0; i < BINDINGS; i++)
		writes[i] = (VkWriteDescriptorSet){
			.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
			.dstSet = set,
			.dstBinding = i,
			.descriptorCount = 1,
			.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
			.pBufferInfo = i == TABLES ? &tables : &key->buffers[i],
		};
	g->dev->instance.vk.UpdateDescriptorSets(g->dev->handle, BINDINGS, writes, 0, NULL);
}

static int set_binding(struct vulkan_binding *b, const struct key *key,
		       const struct program_run *run)
{
	struct vulkan_device *dev = b->program->dev;

	b->key = *key;
	if (b->cmd)
		dev->instance.vk.FreeCommandBuffers(dev->handle, dev->pool, 1, &b->cmd);
	b->cmd = NULL;
	write_set(b->program, b->set, key, 0, VK_WHOLE_SIZE);
	return vulkan_record(dev, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT, record_run,
			     &(struct recording){ b->program, run, &b->set, &b->key.push, 1 }, 1,
			     &b->cmd);
}

/* Under dev->lock: the binding of a key; or a new one, or that of the longest idle key. */
static int get_binding(struct vulkan_program *g, const struct key *key,
		       const struct program_run *run, struct vulkan_binding **out)
{
	struct vulkan_binding **p, **idle = NULL, *b = NULL;
	VkDescriptorSet set;
	int ret = 0;

	for (p = &g->bindings; (b = *p); p = &b->next) {
		if (b->cmd && !memcmp(&b->key, key, sizeof(*key)))
			break;
		if (!b->running)
			idle = p;
	}
	if (!b && idle && g->nbindings >= KEPT)
		p = idle;
	if (*p) {
		struct vulkan_binding *found = *p;

		*p = found->next;
		if (!b)
			ret = set_binding(found, key, run);
		b = found;
	} else {
		ret = new_binding(g, 1, &set, &b);
		if (ret)
			return ret;
		ret = set_binding(b, key, run);
	}
	b->next = g->bindings;
	g->bindings = b;
	if (ret)
		return ret;
	b->running++;
	g->users++;
	*out = b;
	return 0;
}

int vulkan_program_run(void *program, const struct program_run *run, int fence, int *done)
{
	struct vulkan_program *g = program;
	struct vulkan_binding *b = NULL;
	struct key key;
	int ret = find_key(g, run, &key);

	*done = -1;
	if (ret)
		return ret;
	pthread_mutex_lock(&g->dev->lock);
	ret = get_binding(g, &key, run, &b);
	pthread_mutex_unlock(&g->dev->lock);
	return ret ? ret :
	       vulkan_submit_binding(run->brackets, run->nbrackets, b, b->cmd, fence, done);
}

int vulkan_program_run_all(struct dlbuf_device *base, const struct program_job *jobs, uint32_t n,
			   int fence, int *done)
{
	struct vulkan_device *dev = vulkan_device(base);
	struct vulkan_program *g = new_program(dev, jobs->program);
	VkDescriptorSet *sets = sys_calloc(n, sizeof(*sets) + sizeof(struct push));
	struct push *pushes = (void *)(sets + n);
	struct vulkan_binding *b = NULL;
	uint64_t room = 0;
	struct key key;
	void *at = NULL;
	int ret = g && sets ? 0 : -ENOMEM;

	*done = -1;
	for (uint32_t i = 0; i < n; i++)
		room = jobs[i].bytes > room ? jobs[i].bytes : room;
	if (!ret)
		ret = check_limits(dev, room, g);
	if (!ret) {
		room = (room + g->align - 1) / g->align * g->align;
		ret = make_tables(g, n * room, &at);
	}
	pthread_mutex_lock(&dev->lock);
	if (!ret)
		ret = new_binding(g, n, sets, &b);
	if (!ret)
		g->bindings = b;
	for (uint32_t i = 0; i < n && !ret; i++) {
		memcpy((char *)at + i * room, jobs[i].program, jobs[i].bytes);
		ret = find_key(g, &jobs[i].run, &key);
		if (ret)
			break;
		pushes[i] = key.push;
		write_set(g, sets[i], &key, i * room, jobs[i].bytes);
	}
	if (!ret)
		ret = vulkan_record(dev, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT, record_run,
				    &(struct recording){ g, &jobs->run, sets, pushes, n }, 1,
				    &b->cmd);
	if (!ret)
		b->running++;
	else if (g)
		program_put(g);
	pthread_mutex_unlock(&dev->lock);
	free(sets);
	/* The submit has the only use of the program. */
	return ret ? ret : vulkan_submit_binding(jobs->run.brackets, jobs->run.nbrackets, b, b->cmd,
						 fence, done);
}
